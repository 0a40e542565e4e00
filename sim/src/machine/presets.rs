//! The machine files that come with the program.

/// Name and text of each, as files show them.
pub(super) const PRESETS: [(&str, &str); 11] = [
    ("kunpeng920", include_str!("../../machines/kunpeng920.toml")),
    ("xeon-2s", include_str!("../../machines/xeon-2s.toml")),
    ("sandy-bridge-2s", include_str!("../../machines/sandy-bridge-2s.toml")),
    ("sandy-bridge-2s-disks", include_str!("../../machines/sandy-bridge-2s-disks.toml")),
    ("haswell-ex-4s", include_str!("../../machines/haswell-ex-4s.toml")),
    ("desktop-4c", include_str!("../../machines/desktop-4c.toml")),
    ("power8-80q", include_str!("../../machines/power8-80q.toml")),
    ("arm64-2x96", include_str!("../../machines/arm64-2x96.toml")),
    ("vm-small", include_str!("../../machines/vm-small.toml")),
    ("nehalem-4", include_str!("../../machines/nehalem-4.toml")),
    ("altix-1024", include_str!("../../machines/altix-1024.toml")),
];
