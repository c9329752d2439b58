#!/usr/bin/env bash
# A private Docker Engine for the tests marked `docker`, with base images made on this machine.
#
#   eval "$(.ci/docker.sh start [DIR])"   start it (or find it running), make the images, set DOCKER_HOST
#   .ci/docker.sh env [DIR]               print `export DOCKER_HOST=…` of a running one; fails if there is none
#   .ci/docker.sh stop [DIR]              stop it and remove DIR
#
# DIR is short (a socket path has 107 bytes) and holds everything: default /tmp/mrsi-docker, or $MRSI_DOCKER_DIR.
# $MRSI_DOCKER_IMAGES chooses the images, default "tiny slim full":
#   tiny   modularrsi-ci:tiny      busybox alone: no bash
#   slim   debian:bookworm-slim    so that a task's `FROM` finds it without a registry (and debian:latest … for it)
#   full   modularrsi-ci:full      slim and git, gcc, make, python3, sqlite3, procps, sudo …
#
# Needs root and the packages docker.io, mmdebstrap and busybox-static. The Engine runs in a network namespace of its
# own where that is allowed: it then has bridges and internal networks and touches nothing of the host's network (its
# containers do not reach the outside). Where it is not, it runs without bridges.
set -euo pipefail

action=${1:-}
dir=${2:-${MRSI_DOCKER_DIR:-/tmp/mrsi-docker}}
socket=$dir/docker.sock
wanted=${MRSI_DOCKER_IMAGES:-tiny slim full}
export DOCKER_HOST=unix://$socket

say() { echo "docker.sh: $*" >&2; }
die() { say "$*"; exit 1; }
answers() { timeout 5 docker version >/dev/null 2>&1; }
have() { timeout 20 docker image inspect "$1" >/dev/null 2>&1; }

# The pid of the daemon of this folder, and of no other process that got the same number since.
daemon_pid() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "--pidfile $dir/pid" && echo "$pid"
}

wait_until() { # SECONDS COMMAND…
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

gone() { ! daemon_pid >/dev/null; }

end_daemon() {
  local pid
  pid=$(daemon_pid) || return 0
  kill "$pid" 2>/dev/null || true
  wait_until 30 gone && return 0
  say "the daemon did not stop in 30 s: killing it"
  kill -9 "$pid" 2>/dev/null || true
  wait_until 10 gone
}

# What a killed daemon leaves: containers below their shims, its containerd, its mounts.
sweep() {
  local pid child
  for pid in $(pgrep -f -- "containerd.*$dir/exec/" || true); do
    for child in $(pgrep -P "$pid" || true); do kill -9 "$child" 2>/dev/null || true; done
    kill -9 "$pid" 2>/dev/null || true
  done
  awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r |
    while read -r mount; do umount -l "$mount" || true; done
}

launch() {
  local flags=(-H "unix://$socket" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid"
    --storage-driver=overlay2 --userland-proxy=false)
  if unshare -n true 2>/dev/null; then
    setsid unshare -n sh -c 'ip link set lo up 2>/dev/null; exec dockerd "$@"' sh "${flags[@]}" \
      >"$dir/log" 2>&1 </dev/null &
  else
    setsid dockerd "${flags[@]}" --bridge=none --iptables=false --ip6tables=false --ip-forward=false \
      --ip-masq=false >"$dir/log" 2>&1 </dev/null &
  fi
  wait_until 40 answers || { tail -n 20 "$dir/log" >&2; die "the daemon did not answer in 40 s (log above)"; }
}

make_tiny() {
  local root=$dir/tiny
  rm -rf "$root"
  mkdir -p "$root"/{bin,etc,tmp,root,var,usr,proc,sys,dev}
  chmod 1777 "$root/tmp"
  cp "$(command -v busybox)" "$root/bin/busybox"
  "$root/bin/busybox" --list | grep -vx busybox | while read -r applet; do ln -s busybox "$root/bin/$applet"; done
  printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\nuser:x:1000:\n' >"$root/etc/group"
  tar -C "$root" -c . | docker import -c 'ENV PATH=/bin' - modularrsi-ci:tiny >/dev/null
  rm -rf "$root"
}

# The Debian archives that this machine itself uses, as one-line sources.
sources() {
  apt-get indextargets --no-release-info --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    grep '/debian[^ ]* bookworm' | sort -u
}

make_debian() { # TAG [PACKAGE…]
  local tag=$1 packages=apt,bash,ca-certificates work=$dir
  shift
  for package; do packages+=,$package; done
  [ -w /dev/shm ] && work=$(mktemp -d /dev/shm/mrsi-docker.XXXXXX)
  sources | TMPDIR=$work mmdebstrap --quiet --variant=essential --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' bookworm - - |
    docker import -c 'CMD ["bash"]' -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
      - "$tag" >/dev/null || { [ "$work" = "$dir" ] || rm -rf "$work"; die "could not make $tag"; }
  [ "$work" = "$dir" ] || rm -rf "$work"
}

make_images() {
  local image
  for image in $wanted; do
    case $image in
      tiny) have modularrsi-ci:tiny || make_tiny ;;
      slim)
        have debian:bookworm-slim || make_debian debian:bookworm-slim
        for tag in debian:bookworm debian:latest debian:stable-slim; do docker tag debian:bookworm-slim "$tag"; done
        ;;
      full) have modularrsi-ci:full || make_debian modularrsi-ci:full \
        curl file gcc git less libc6-dev make nano procps psmisc python3 sqlite3 sudo tmux vim-tiny
        # The names under which tasks ask for such an image.
        for tag in buildpack-deps:bookworm python:3.11-slim; do docker tag modularrsi-ci:full "$tag"; done
        ;;
      *) die "no image is called '$image': choose from tiny, slim, full" ;;
    esac
  done
}

case $action in
  start)
    [ "$(id -u)" = 0 ] || die "an Engine of one's own needs root"
    for tool in dockerd docker mmdebstrap busybox; do
      command -v "$tool" >/dev/null || die "$tool is missing: apt-get install docker.io mmdebstrap busybox-static"
    done
    mkdir -p "$dir"
    exec 9>"$dir/lock"
    flock -w 300 9 || die "another start of $dir has not finished in 300 s"
    if ! answers; then
      end_daemon
      sweep
      rm -rf "$socket" "$dir/pid" "$dir/exec"
      launch 9>&-
    fi
    make_images
    echo "export DOCKER_HOST=$DOCKER_HOST"
    ;;
  env)
    answers || die "no Engine runs in $dir: start one with .ci/docker.sh start"
    echo "export DOCKER_HOST=$DOCKER_HOST"
    ;;
  stop)
    end_daemon || die "the daemon of $dir cannot be stopped"
    sweep
    rm -rf "$dir"
    ;;
  *) die "usage: .ci/docker.sh start|env|stop [DIR]" ;;
esac
