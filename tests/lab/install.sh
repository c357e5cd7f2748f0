#!/bin/sh
# Installs the Debian packages that the lab and the Python environment need, where they are missing and we may.
# Without root or apt it says what is missing and leaves with 0: the tests of the lab are then skipped and counted.
set -u
missing=""
need() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"; }
need slurmctld slurmctld
need slurmd slurmd
need scontrol slurm-client
need munged munge
need ip iproute2
need tc iproute2
need gcc gcc
need nsenter util-linux
[ -f /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -d /usr/lib/x86_64-linux-gnu/slurm-wlm ] || [ -d /usr/lib/aarch64-linux-gnu/slurm-wlm ] || missing="$missing slurm-wlm-basic-plugins"
/usr/bin/python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3 python3-venv"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "lab: missing${missing}; as root on Debian: apt-get install --no-install-recommends${missing}" >&2
    exit 0
fi
echo "installing Debian packages:${missing}"
export DEBIAN_FRONTEND=noninteractive
# Debian starts services on installation; the lab brings up its own and wants none of them.
policy=/usr/sbin/policy-rc.d
[ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy"; chmod 755 "$policy"; trap 'rm -f "$policy"' EXIT; }
# shellcheck disable=SC2086  # a list of words
missing=$(printf '%s\n' $missing | sort -u)
# shellcheck disable=SC2086
apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null
