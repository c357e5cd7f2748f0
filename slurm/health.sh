#!/bin/sh
# HealthCheckProgram= of slurm.conf: prints what guardctl thinks of this node. Always exits 0 and drains nothing: that
# is the monitor's work, within its budget.
#
# Slurm knows one health program only. To keep yours, link it into /etc/guardctl/health.d: every program there runs
# after ours, in the order of the names. For NHC: ln -s /usr/sbin/nhc /etc/guardctl/health.d/50-nhc
# (NHC may drain nodes on its own. guardctl sees that such a drain is not its own and leaves it alone.)

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)

case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
for hook in "$here/hook.py" /usr/local/lib/guardctl/hook.py ""; do
    [ -r "$hook" ] && break
done

if [ -n "$hook" ] && [ -n "$python" ]; then
    "$python" -I -S "$hook" health
elif command -v guardctl-hook >/dev/null; then
    guardctl-hook health
fi

for next in /etc/guardctl/health.d/*; do
    [ -x "$next" ] && [ ! -d "$next" ] && "$next"
done
exit 0
