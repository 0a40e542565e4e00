#!/bin/bash
# Boots the guest that make-guest.sh made, runs one shell job in it, and brings its results back.
#
#   run-guest.sh [-o OUT] [-i IN] [-t SECONDS] JOB.sh [DISK.img ...]
#
#   -o OUT      folder for results: what the job writes below /out, job.log, console.log
#   -i IN       folder whose files the job sees below /in
#   -t SECONDS  time limit (default 300)
#
# Each DISK.img is a raw file; the job sees number N as /dev/dN. Exit status: the job's; 124 if time ran
# out; 125 if the guest ended without a status.
#
# Environment: GUEST_WORK and GUEST_KERNEL as for make-guest.sh; GUEST_ACCEL (default tcg, emulation;
# kvm where the machine has it).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest=${GUEST_WORK:-$here/../../../target/guest}/${GUEST_KERNEL:-linux-image-amd64}
out=guest-out in_folder='' seconds=300
while getopts 'o:i:t:' option; do
    case $option in
        o) out=$OPTARG ;;
        i) in_folder=$OPTARG ;;
        t) seconds=$OPTARG ;;
        *) sed -n '2,/^set -euo/p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
job=$1
shift
[[ -e $guest/vmlinuz ]] || { echo "run-guest: run make-guest.sh first (no $guest)" >&2; exit 2; }

mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/{rc,job.log,console.log}
shared=$(mktemp -d)
trap 'rm -rf "$shared"' EXIT
[[ -z $in_folder ]] || cp -rL "$in_folder"/. "$shared"/
cp "$job" "$shared/job.sh"

arguments=(
    -machine q35 -accel "${GUEST_ACCEL:-tcg}" -cpu max -smp 2 -m 1024
    -nodefaults -no-user-config -display none -no-reboot -monitor none
    -serial "file:$out/console.log"
    -kernel "$guest/vmlinuz" -initrd "$guest/initramfs.cpio"
    # panic=-1 reboots at once, which -no-reboot turns into an exit.
    -append "console=ttyS0 panic=-1 loglevel=6 mitigations=off nokaslr random.trust_cpu=on"
    -device virtio-rng-pci
    -virtfs "local,path=$shared,mount_tag=in,security_model=none,readonly=on"
    -virtfs "local,path=$out,mount_tag=out,security_model=none"
)
number=0
for disk in "$@"; do
    arguments+=(-drive "file=$disk,format=raw,if=none,id=d$number,cache=unsafe"
                -device "virtio-blk-pci,drive=d$number,serial=d$number")
    number=$((number + 1))
done

status=0
timeout -k 5 "$seconds" qemu-system-x86_64 "${arguments[@]}" </dev/null || status=$?
((status != 124)) || { echo "run-guest: not done after $seconds s" >&2; exit 124; }
((status == 0)) || { echo "run-guest: the emulator ended with $status" >&2; exit 125; }
[[ -s $out/rc ]] || exit 125
exit "$(cat "$out/rc")"
