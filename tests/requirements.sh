#!/bin/sh
# What `make` needs from the machine: looked for first, installed with apt-get when root, else named before anything runs.
#   requirements.sh venv [PYTHON] DIR   make the virtual environment DIR (an existing one is kept)
#   requirements.sh redis               a redis-server of version 7 or newer in PATH
set -eu

say() { printf '%s\n' "$*" >&2; }

# Install Debian packages; fails when this is no Debian or we are not root.
apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing with apt-get: $*"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

# The interpreter runs (a version manager's shim may not) and is new enough.
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${1:-python3.13 python3.12 python3.11 python3}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    if [ -n "${1:-}" ]; then
        say "$1 is not a Python 3.11 or newer."
    else
        say "No Python 3.11 or newer found. Install one (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.13) or name it: make PYTHON=/path/to/python3 …"
    fi
    return 1
}

venv() {
    [ -x "$2/bin/python" ] && "$2/bin/python" -c 'import pip' 2>/dev/null && return
    python=$(find_python "$1")
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        if ! { apt "python$version-venv" && "$python" -c 'import venv, ensurepip' 2>/dev/null; }; then
            say "$python lacks the modules venv and ensurepip. Install them (Debian, Ubuntu: apt-get install python3-venv)."
            return 1
        fi
    fi
    say "making $2 with $("$python" --version)"
    "$python" -m venv --clear "$2"
}

redis_is_there() {
    command -v redis-server >/dev/null && redis-server --version | grep -qE ' v=([7-9]|[1-9][0-9]+)\.'
}

redis() {
    redis_is_there && return
    if ! { apt redis-server && redis_is_there; }; then
        say "The tests need redis-server 7.0 or newer in PATH. Install it (Debian 12, Ubuntu 24.04: apt-get install redis-server; macOS: brew install redis)."
        return 1
    fi
}

case "${1:-}" in
    venv) venv "$2" "$3" ;;
    redis) redis ;;
    *) say "usage: requirements.sh venv PYTHON DIR | redis"; exit 2 ;;
esac
