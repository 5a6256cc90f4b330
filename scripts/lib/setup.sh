# Sourced by scripts/run and scripts/test, with $root set: finds Python, makes .venv, installs the project into it.
#
# Python is started with -I: nothing is imported from the folder that this is called in.
#
# A second call is done in milliseconds: .venv/.ready-EXTRA holds a sum of everything that decides what is installed.
# An installation that was killed half-way is made anew; one that failed is tried again.

venv="$root/.venv"
python="$venv/bin/python"
lock="$root/.scratch/setup.lock"
torch_index=https://download.pytorch.org/whl/cpu

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$1"
    shift
    for line in "$@"; do say "  $line"; done
    exit 1
}

# A Python that can make a virtual environment, 3.11 or newer; the plain python3 first, because that is the one people mean.
find_python() {
    found_old='' found_bare=''
    for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14 python; do
        version=$("$candidate" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case $version in
            3.1[1-4]) ;;
            *) found_old="$found_old $candidate ($version)"; continue ;;
        esac
        if "$candidate" -I -c 'import ensurepip, venv' 2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
        found_bare="$candidate"
    done
    if [ -n "$found_bare" ]; then
        fail "$found_bare cannot make virtual environments: its venv or ensurepip module is missing." \
            "Debian, Ubuntu: sudo apt install python3-venv"
    fi
    fail "Python 3.11, 3.12, 3.13 or 3.14 is needed, and none was found.${found_old:+ Found:$found_old.}" \
        "Debian, Ubuntu: sudo apt install python3 python3-venv" \
        "Fedora: sudo dnf install python3    macOS: brew install python@3.13" \
        "One elsewhere: PYTHON=/path/to/python3 $0"
}

# What decides which packages are installed.
state() {
    cat "$root/pyproject.toml" "$root/constraints.txt" "$root/scripts/lib/setup.sh" | cksum
    printf '%s %s\n' "$root" "$1"
}

has_nvidia_gpu() {
    command -v nvidia-smi >/dev/null 2>&1 || return 1
    gpus="$root/.scratch/gpus.$$"
    nvidia-smi -L >"$gpus" 2>/dev/null </dev/null &
    asked=$! waited=0
    # A driver that hangs is left behind after ten seconds, killed or not.
    while kill -0 "$asked" 2>/dev/null && [ "$waited" -lt 100 ]; do
        sleep 0.1
        waited=$((waited + 1))
    done
    kill -9 "$asked" 2>/dev/null || :
    found=1
    ! grep -q GPU "$gpus" || found=0
    rm -f "$gpus"
    return "$found"
}

# A person at a terminal sees pip's bars; a log gets its errors alone.
pip_install() {
    if [ -t 2 ]; then
        "$python" -I -m pip --disable-pip-version-check install "$@" >&2
    else
        "$python" -I -m pip --disable-pip-version-check --quiet --quiet install "$@" >&2
    fi
}

# The extra torch is for NVIDIA GPUs and the tests; a later setup without it removes nothing. Bytecode is made of what is
# imported, when it is: of all it would be a fifth of the size and half of the work.
install_packages() {
    if [ -z "$1" ] && ! has_nvidia_gpu; then
        say "Installing the packages of fastcoder-lsp (about 400 MB)"
        pip_install --no-compile --constraint "$root/constraints.txt" --editable "$root"
    else
        install_torch
        say "Installing the packages of fastcoder-lsp with torch (about 1.5 GB)"
        pip_install --constraint "$root/constraints.txt" --editable "$root[${1:-torch}]"
    fi
}

# Without an NVIDIA GPU the CPU build, a tenth of the size: from PyTorch's own index if it answers soon. Elsewhere, and
# on macOS (one build only), the configured index decides, within the constraints.
install_torch() {
    [ "$(uname -s)" = Linux ] || return 0
    ! has_nvidia_gpu || return 0
    wanted=$(sed -n 's/^torch==/torch==/p' "$root/constraints.txt")
    ! "$python" -I -c "import sys; from importlib.metadata import version; sys.exit(version('torch').partition('+')[0] != '${wanted#torch==}')" 2>/dev/null || return 0
    "$python" -I -c "import urllib.request as r; r.urlopen('$torch_index/', timeout=5).close()" 2>/dev/null || return 0
    say "Installing the CPU build of torch from $torch_index"
    pip_install --no-deps --index-url "$torch_index" "$wanted" || say "That failed; trying the configured package index."
}

# setup EXTRA: the project with that optional group ("" for none), ready in .venv.
setup() {
    ready="$venv/.ready${1:+-$1}"
    unfinished="$venv/.unfinished"
    wanted_state=$(state "$1")
    ! is_ready || return 0
    hold_lock
    if ! is_ready; then
        install "$1"
    fi
    release_lock
}

is_ready() {
    [ -x "$python" ] && [ ! -e "$unfinished" ] && [ "$(cat "$ready" 2>/dev/null)" = "$wanted_state" ]
}

install() {
    if [ -e "$unfinished" ] || ! "$python" -I -m pip --version >/dev/null 2>&1; then
        base=$(find_python) || exit 1
        [ ! -e "$venv" ] || say "The environment in .venv is unfinished or broken: making it anew."
        rm -rf "$venv"
        can_write "$venv"
        say "Setting up Python packages in $venv (once)"
        : >"$unfinished"
        "$base" -I -m venv "$venv" || fail "$base could not make a virtual environment in $venv."
    fi
    : >"$unfinished" || fail "$unfinished cannot be written." "Free some space, and run $0 again."
    if ! install_packages "$1"; then
        rm -f "$unfinished" # pip undoes what it did not finish
        release_lock
        fail "The packages could not be installed: see above." "Run $0 again; what is downloaded is kept."
    fi
    printf '%s\n' "$wanted_state" >"$ready"
    rm -f "$unfinished"
}

# Two starts at once must not install into one folder at once. The lock is a folder that names its holder; one whose holder
# is gone, or that nobody has put a name to in ten seconds, was left by one that was killed.
hold_lock() {
    can_write "$root/.scratch"
    nameless=0
    until mkdir "$lock" 2>/dev/null; do
        if [ ! -d "$lock" ]; then # given up meanwhile, or not to be made at all
            ! said=$(mkdir "$lock" 2>&1) || break
            [ -d "$lock" ] || fail "$lock cannot be made: $said" "Free some space, or look at that folder."
        fi
        holder=$(cat "$lock/pid" 2>/dev/null || :)
        case $holder in
            '' | *[!0-9]*)
                holder_is=''
                nameless=$((nameless + 1))
                [ "$nameless" -le 10 ] || break_lock "$holder"
                ;;
            *)
                nameless=0 holder_is=$holder
                is_setting_up "$holder" || break_lock "$holder"
                ;;
        esac
        [ -d "$lock" ] || continue
        [ -n "${told:-}" ] || [ -z "$holder_is" ] || say "Another start is setting up; waiting for it. To end it: kill $holder"
        [ -z "$holder_is" ] || told=1
        sleep 1
    done
    callers_trap=$(trap -p EXIT)
    trap release_lock EXIT
    printf '%s\n' "$$" >"$lock/pid" || fail "$lock/pid cannot be written." "Free some space, and run $0 again."
}

# Whether a process is one of ours: after a restart of the machine its number may be somebody else's.
is_setting_up() {
    kill -0 "$1" 2>/dev/null || return 1
    [ -r "/proc/$1/cmdline" ] || return 0 # no such place on macOS
    tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -Eq '^[^ ]*sh .*(^|[ /])(run|test|test-[a-z-]*|vsix)( |$)'
}

# Taken away by a name of its own, so that of several who do this only one takes it, and no newer one is taken.
break_lock() {
    mv "$lock" "$lock.$$" 2>/dev/null || return 0
    if [ "$(cat "$lock.$$/pid" 2>/dev/null || :)" = "$1" ]; then
        rm -rf "$lock.$$"
    else
        mv "$lock.$$" "$lock" # somebody else's, made meanwhile
    fi
}

release_lock() {
    rm -rf "$lock"
    trap - EXIT
    eval "${callers_trap:-:}"
}

# See that a folder is there and can be written to.
can_write() {
    said=$(mkdir -p "$1" 2>&1) || fail "$1 cannot be made: $said" \
        "Make it writable for you and free some space, or clone it into another folder." \
        "An installation elsewhere: python3 -m venv ~/fastcoder && ~/fastcoder/bin/pip install $root"
    said=$( (: >"$1/.writable.$$") 2>&1) || fail "$1 cannot be written to: ${said##*: }" \
        "Make it writable for you and free some space, or clone it into another folder." \
        "An installation elsewhere: python3 -m venv ~/fastcoder && ~/fastcoder/bin/pip install $root"
    rm -f "$1/.writable.$$"
}
