//! Hash function that is stable across processes and releases.
//!
//! The hash of the standard library may change between its releases. Activators of two releases
//! would then compute different subsets and shares, and a new metrics-adapter would take every pod
//! template for a new one.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// 64-bit FNV-1a of a text, finalized by [`mix`].
pub fn hash(text: &str) -> u64 {
    mix(fnv1a(FNV_OFFSET, text.as_bytes()))
}

/// Hash of two texts without NUL bytes. A NUL between them keeps different pairs apart.
pub(super) fn hash_pair(first: &str, second: &str) -> u64 {
    mix(fnv1a(fnv1a(fnv1a(FNV_OFFSET, first.as_bytes()), &[0]), second.as_bytes()))
}

/// Finalizer of splitmix64. FNV alone gives similar hashes to names that differ in the last digit.
pub(super) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// FNV-1a, continued from `state`.
fn fnv1a(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
