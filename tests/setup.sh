# setup.sh - sourced: install what is missing, where that is allowed.

# Packages among the arguments that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

# Install the packages given, or say which are missing and end with 2. Other systems than Debian and
# its children have other names for them: there the configuration says what it lacks.
need_packages() {
    local missing root=
    command -v dpkg-query >/dev/null || return 0
    missing=$(missing_packages "$@" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            echo "missing packages: $missing- install them with: apt-get install $missing" >&2
            exit 2
        fi
        root=sudo
    fi
    echo "installing: $missing"
    # Package lists may be old or absent on a new machine; a failed update is judged by the install.
    $root env DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null || true
    # shellcheck disable=SC2086
    $root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing >/dev/null || {
        echo "apt-get could not install: $missing" >&2
        exit 2
    }
}
