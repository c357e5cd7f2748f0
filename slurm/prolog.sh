#!/bin/sh
# Prolog= of slurm.conf: asks the node's cached verdict whether a job may start here. Calls no Slurm command.
#
# A prolog that fails drains the node and holds the job, so everything that is wrong with guardctl itself, from a
# missing file to a broken Python, lets the job start. Only the exit code 1 *with* the word `refuse` on stdout stops it,
# and the hook says so only if the policy has [hook] refuse = true and a GPU has a hard fault.
#
# Your own prolog runs beside this one: Prolog=/etc/slurm/prolog.d/* runs every script of a folder, in order.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
for hook in "$here/hook.py" /usr/local/lib/guardctl/hook.py ""; do
    [ -r "$hook" ] && break
done

if [ -n "$hook" ] && [ -n "$python" ]; then
    # -I: nothing of the job's environment; -S: no site-packages, which may lie on a file system that hangs
    answer=$("$python" -I -S "$hook" prolog)
elif command -v guardctl-hook >/dev/null; then
    answer=$(guardctl-hook prolog)
else
    echo "guardctl: no hook.py and no guardctl-hook here: nothing checked" >&2
    exit 0
fi
code=$?

case $code:$answer in
1:refuse*)
    echo "guardctl: $answer" >&2
    exit 1
    ;;
esac
exit 0
