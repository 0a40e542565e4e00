#!/bin/bash
# Builds a small throw-away Linux guest with the real md driver and mdadm, for tests by hand.
#
#   make-guest.sh                                        Debian's default kernel
#   GUEST_KERNEL=linux-image-6.12-amd64 make-guest.sh    another one beside it
#
# The result, an unpacked kernel and one initramfs, lies under $GUEST_WORK/$GUEST_KERNEL/. The kernel
# package is downloaded and unpacked there, not installed. Programs that are missing on this machine
# are installed with apt, which needs root on Debian.
#
#   GUEST_WORK     scratch folder, some 0.7 GB  (default: target/guest of this repository)
#   GUEST_KERNEL   name of a kernel package     (default: linux-image-amd64)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${GUEST_WORK:-$here/../../../target/guest}
kernel=${GUEST_KERNEL:-linux-image-amd64}
mkdir -p "$work"
work=$(cd "$work" && pwd)
dest=$work/$kernel

packages=(qemu-system-x86 mdadm busybox-static kmod cpio zstd xz-utils python3)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing+=("$package")
done
if ((${#missing[@]})); then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

# The meta-package names the real one.
real=$(apt-cache show --no-all-versions "$kernel" |
       sed -n 's/^Depends:.*\(linux-image-[^ ,]*\).*/\1/p' | head -n1)
real=${real:-$kernel}
tree=$work/kernel/$real
if [[ ! -e $tree/.unpacked ]]; then
    rm -rf "$tree"
    mkdir -p "$tree"
    (cd "$tree" && apt-get download -q "$real")
    dpkg -x "$tree"/*.deb "$tree"
    rm "$tree"/*.deb
    find "$tree/lib/modules" -name '*.ko.xz' -exec xz -d {} +
    find "$tree/lib/modules" -name '*.ko.zst' -exec zstd -q -d --rm {} +
    depmod -b "$tree" "$(ls "$tree/lib/modules")"
    touch "$tree/.unpacked"
fi
version=$(ls "$tree/lib/modules")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,sbin,etc,proc,sys,dev,run,tmp,in,out,root}

# Loaded at boot, in this order. No dependency of raid456 names the checksum modules: it looks them up
# when it runs. Kernels from 6.8 on have no linear.
modules=(virtio_pci virtio_blk 9pnet_virtio 9p crc32c_generic crc32c_intel
         md_mod linear raid0 raid1 raid10 raid456 nvme)
for module in "${modules[@]}"; do
    if ! needed=$(modprobe -d "$tree" -S "$version" --show-depends "$module" 2>/dev/null); then
        echo "make-guest: this kernel has no $module"
        continue
    fi
    echo "$module" >>"$root/etc/boot-modules"
    while read -r verb file _; do
        [[ $verb == insmod ]] && install -D -m 644 "$file" "$root/${file#"$tree"/}"
    done <<<"$needed"
done
cp "$tree/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$version/"
depmod -b "$root" "$version"

mdadm=$(PATH=$PATH:/sbin:/usr/sbin command -v mdadm)
install -D -m 755 "$mdadm" "$root/bin/mdadm"
ldd "$mdadm" | grep -o '/[^ ]*' | while read -r library; do
    install -D -m 755 "$(readlink -f "$library")" "$root$library"
done
install -m 755 "$(command -v busybox)" "$root/bin/busybox"
for applet in $(busybox --list); do
    [[ -e $root/bin/$applet ]] || ln -s busybox "$root/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"

cat >"$root/init" <<'INIT'
#!/bin/sh
# First process of the guest: set up, run /in/job.sh, switch off.
export PATH=/bin:/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
ln -s /proc/self/fd /dev/fd
hostname guest
for module in $(cat /etc/boot-modules); do modprobe "$module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,ro in /in
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /out
# Disks carry the serials d0, d1, ... in the order of the command line.
for block in /sys/block/vd*; do
    [ -e "$block/serial" ] && ln -s "${block##*/}" "/dev/$(cat "$block/serial")"
done
echo 2000000 >/proc/sys/dev/raid/speed_limit_max
cd /tmp
{ sh /in/job.sh; echo $? >/out/rc; } 2>&1 | tee /out/job.log
sync
poweroff -f
INIT
chmod 755 "$root/init"

mkdir -p "$dest"
# Unpacked here, the kernel need not be unpacked under emulation, which halves the time of a boot.
python3 - "$tree/boot/vmlinuz-$version" "$dest/vmlinuz" <<'PY'
import gzip, lzma, struct, subprocess, sys
image = open(sys.argv[1], "rb").read()
# The boot protocol: setup sectors at 0x1f1, payload offset and length at 0x248 and 0x24c.
start = ((image[0x1F1] or 4) + 1) * 512 + struct.unpack_from("<I", image, 0x248)[0]
payload = image[start:start + struct.unpack_from("<I", image, 0x24C)[0]]
if payload.startswith(b"\xfd7zXZ"):
    elf = lzma.LZMADecompressor().decompress(payload)
elif payload.startswith(b"\x28\xb5\x2f\xfd"):
    elf = subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE).stdout
elif payload.startswith(b"\x1f\x8b"):
    elf = gzip.decompress(payload[:-4])
else:
    elf = b""
open(sys.argv[2], "wb").write(elf if elf.startswith(b"\x7fELF") else image)
PY
(cd "$root" && find . -print0 | cpio --quiet --null -o -H newc -R 0:0) >"$dest/initramfs.cpio"
echo "guest with kernel $version: $dest"
