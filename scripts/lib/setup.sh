# Sourced by scripts/run and scripts/test, with $root set: finds Python, makes .venv, installs the project into it.
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
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case $version in
            3.1[1-4]) ;;
            *) found_old="$found_old $candidate ($version)"; continue ;;
        esac
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
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
    command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q GPU
}

# A person at a terminal sees pip's bars; a log gets its errors alone.
pip_install() {
    if [ -t 2 ]; then
        "$python" -m pip --disable-pip-version-check install "$@" >&2
    else
        "$python" -m pip --disable-pip-version-check --quiet --quiet install "$@" >&2
    fi
}

# Without an NVIDIA GPU the CPU build, a tenth of the size: from PyTorch's own index if it answers soon. Elsewhere, and
# on macOS (one build only), the configured index decides, within the constraints.
install_torch() {
    [ "$(uname -s)" = Linux ] || return 0
    ! has_nvidia_gpu || return 0
    wanted=$(sed -n 's/^torch==/torch==/p' "$root/constraints.txt")
    ! "$python" -c "import sys; from importlib.metadata import version; sys.exit(version('torch').partition('+')[0] != '${wanted#torch==}')" 2>/dev/null || return 0
    "$python" -c "import urllib.request as r; r.urlopen('$torch_index/', timeout=5).close()" 2>/dev/null || return 0
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
    if [ -e "$unfinished" ] || ! "$python" -m pip --version >/dev/null 2>&1; then
        base=$(find_python) || exit 1
        [ ! -e "$venv" ] || say "The environment in .venv is unfinished or broken: making it anew."
        rm -rf "$venv"
        mkdir -p "$venv"
        : >"$unfinished"
        say "Setting up Python packages in $venv (once; a few minutes, about 1.5 GB)"
        "$base" -m venv "$venv" || fail "$base could not make a virtual environment in $venv."
    fi
    : >"$unfinished"
    install_torch
    say "Installing the packages of fastcoder-lsp"
    if ! pip_install --constraint "$root/constraints.txt" --editable "$root${1:+[$1]}"; then
        rm -f "$unfinished" # pip undoes what it did not finish
        release_lock
        fail "The packages could not be installed: see above." "Run $0 again; what is downloaded is kept."
    fi
    printf '%s\n' "$wanted_state" >"$ready"
    rm -f "$unfinished"
}

# Two starts at once must not install into one folder at once.
hold_lock() {
    mkdir -p "$root/.scratch"
    until mkdir "$lock" 2>/dev/null; do
        holder=$(cat "$lock/pid" 2>/dev/null || :)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            rm -rf "$lock" # left by one that was killed
            continue
        fi
        [ -n "${told:-}" ] || say "Another start is setting up; waiting for it (process ${holder:-unknown})."
        told=1
        sleep 1
    done
    printf '%s\n' "$$" >"$lock/pid"
}

release_lock() { rm -rf "$lock"; }
