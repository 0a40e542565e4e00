#!/bin/bash
# There and back: raidbed makes arrays, the real md driver and mdadm judge and change them, and raidbed
# reads what they left.
#
#   round-trip.sh [PATTERN]      all configurations below, or those whose line matches
#
# For each configuration: raidbed creates an array of files and fills it. In the guest mdadm examines
# the members, the kernel assembles the array, reads it back and checks its redundancy; then it
# writes, loses a member, writes on, and stops. raidbed reads the array without that member's help.
# Every step must give the content that is computed here with plain files.
#
# Needs what make-guest.sh made, and `cargo build --release`. Some ten seconds a configuration.
# Exit status: 0 if every configuration passed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
raidbed=${RAIDBED:-$here/../../../target/release/raidbed}
pattern=${1:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# name, level, members, layout, chunk, metadata, bitmap, member that the kernel loses
configurations='
linear        linear  3  -                  -     1.2   none      -
raid0         0       3  -                  64K   1.2   none      -
raid0-4k      0       2  -                  4K    1.0   none      -
raid1         1       2  -                  -     1.2   none      1
raid1-bitmap  1       3  -                  -     1.1   internal  0
raid1-old     1       2  -                  -     0.90  none      0
raid10-n2     10      4  n2                 64K   1.2   internal  2
raid10-n3     10      5  n3                 32K   1.2   none      4
raid10-f2     10      3  f2                 64K   1.0   none      1
raid10-o2     10      4  o2                 64K   1.2   none      0
raid4         4       4  -                  64K   1.2   none      3
raid5-ls      5       4  left-symmetric     64K   1.2   internal  1
raid5-la      5       3  left-asymmetric    4K    1.0   none      0
raid5-rs      5       5  right-symmetric    128K  1.1   none      4
raid5-pf      5       4  parity-first       64K   1.2   none      2
raid5-old     5       4  left-symmetric     64K   0.90  none      0
raid6-ls      6       5  left-symmetric     64K   1.2   internal  3
raid6-ra      6       4  right-asymmetric   16K   1.0   none      0
raid6-ddf     6       5  ddf-N-restart      64K   1.2   none      2
raid6-ls6     6       6  left-symmetric-6   64K   1.2   none      5
'

# noise FILE BYTES SEED: the same bytes for the same seed, that no zero or stale sector can pass for.
noise() {
    python3 -c 'import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[2]).randbytes(int(sys.argv[1])))' "$2" "$3" >"$1"
}

hash_of() { sha256sum "$1" | cut -d' ' -f1; }

# What the kernel writes, whole and degraded: source offset = target offset, in sectors of the array.
# Offsets and lengths cut chunks and pages.
writes_whole='3 1  1000 77  2049 513'
writes_degraded='7 2  1500 130  4097 1023'

# put TARGET SOURCE LIST: copies the pieces of a list of "sector count".
put='put() {
    target=$1 source=$2
    shift 2
    while [ $# -ge 2 ]; do
        dd if=$source of=$target bs=512 skip=$1 seek=$1 count=$2 conv=notrunc,fsync 2>/dev/null
        shift 2
    done
}'
eval "$put"

passed=0 failed=()
while read -r name level count layout chunk metadata bitmap loses; do
    [[ -n $name && "$name $level $layout" =~ $pattern ]] || continue
    folder=$work/$name
    mkdir -p "$folder/in"
    fail() { echo "FAILED  $name: $1"; failed+=("$name"); }

    members=() disks=()
    for ((member = 0; member < count; member++)); do
        members+=("$folder/m$member.img")
        disks+=("/dev/d$member")
    done
    options=(--level "$level" --raid-devices "$count" --metadata "$metadata" --create-size 8M)
    [[ $layout == - ]] || options+=(--layout "$layout")
    [[ $chunk == - ]] || options+=(--chunk "$chunk")
    [[ $bitmap == none ]] || options+=(--bitmap "$bitmap")
    if ! "$raidbed" create "${options[@]}" "${members[@]}" >"$folder/create.txt" 2>&1; then
        fail "raidbed create: $(tail -n1 "$folder/create.txt")"
        continue
    fi
    "$raidbed" copy-out "${members[@]}" --to "$folder/first" >"$folder/out.txt" 2>&1 ||
        { fail "raidbed copy-out: $(tail -n1 "$folder/out.txt")"; continue; }
    size=$(stat -c %s "$folder/first")
    noise "$folder/content" "$size" "$name"
    noise "$folder/in/new" "$size" "$name, written by the kernel"
    "$raidbed" copy-in "${members[@]}" --from "$folder/content" >"$folder/in.txt" 2>&1 ||
        { fail "raidbed copy-in: $(tail -n1 "$folder/in.txt")"; continue; }

    cat >"$folder/job.sh" <<JOB
$put
i=0
while [ \$i -lt $count ]; do
    mdadm --examine /dev/d\$i >/out/examine.\$i 2>&1 || echo "examine \$i says \$?" >>/out/complaints
    i=\$((i + 1))
done
[ $bitmap = none ] || mdadm --examine-bitmap /dev/d0 >/out/bitmap 2>&1 || echo bitmap >>/out/complaints
mdadm --assemble /dev/md0 ${disks[*]} 2>&1 || exit 1
cat /proc/mdstat
cd /sys/block/md0/md
cat array_state degraded 2>/dev/null | tr '\n' ' ' >/out/state
sha256sum /dev/md0 | cut -d' ' -f1 >/out/read
if [ $loses != - ]; then
    mdadm --wait /dev/md0
    echo check >sync_action
    mdadm --wait /dev/md0
    cat mismatch_cnt >/out/mismatches
fi
cd /
put /dev/md0 /in/new $writes_whole
if [ $loses != - ]; then
    mdadm /dev/md0 --fail /dev/d$loses || exit 1
    put /dev/md0 /in/new $writes_degraded
fi
echo 3 >/proc/sys/vm/drop_caches
sha256sum /dev/md0 | cut -d' ' -f1 >/out/left
mdadm --stop /dev/md0
JOB
    if ! "$here/run-guest.sh" -o "$folder/out" -i "$folder/in" "$folder/job.sh" "${members[@]}"; then
        fail "the guest: $(tail -n3 "$folder/out/job.log" | tr '\n' ' ')"
        continue
    fi

    [[ ! -e $folder/out/complaints ]] || { fail "mdadm: $(cat "$folder/out/complaints")"; continue; }
    if grep -qi 'expected\|invalid\|bad blocks present' "$folder"/out/examine.*; then
        fail "mdadm --examine: $(grep -hi 'expected\|invalid\|bad blocks present' "$folder"/out/examine.* | head -n1)"
        continue
    fi
    [[ $(cat "$folder/out/read") == "$(hash_of "$folder/content")" ]] ||
        { fail "the kernel reads other content"; continue; }
    if [[ $loses != - && $(cat "$folder/out/mismatches") != 0 ]]; then
        fail "the kernel counts $(cat "$folder/out/mismatches") mismatches"
        continue
    fi
    put "$folder/content" "$folder/in/new" $writes_whole
    [[ $loses == - ]] || put "$folder/content" "$folder/in/new" $writes_degraded
    [[ $(cat "$folder/out/left") == "$(hash_of "$folder/content")" ]] ||
        { fail "the kernel left other content than was written"; continue; }

    degraded=()
    [[ $loses == - ]] || degraded=(--degraded)
    "$raidbed" copy-out ${degraded[@]+"${degraded[@]}"} "${members[@]}" --to "$folder/last" \
        >"$folder/last.txt" 2>&1 || { fail "raidbed copy-out: $(tail -n1 "$folder/last.txt")"; continue; }
    [[ $(hash_of "$folder/last") == "$(hash_of "$folder/content")" ]] ||
        { fail "raidbed reads other content than the kernel left"; continue; }
    passed=$((passed + 1))
    echo "passed  $name: $(cat "$folder/out/state")$size bytes"
    rm -rf "$folder"
done <<<"$configurations"

echo "$passed passed, ${#failed[@]} failed${failed[*]:+: ${failed[*]}}"
((${#failed[@]} == 0))
