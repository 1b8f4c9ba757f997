//! A hash that is the same in every process and every release: the standard library's may change between releases, and
//! activators of two releases would then compute different subsets and shares.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// 64-bit FNV-1a of a text, spread over all bits.
pub(super) fn hash(text: &str) -> u64 {
    mix(fnv1a(FNV_OFFSET, text.as_bytes()))
}

/// The hash of two texts, neither of which contains a NUL byte: no two pairs run together.
pub(super) fn hash_pair(first: &str, second: &str) -> u64 {
    mix(fnv1a(fnv1a(fnv1a(FNV_OFFSET, first.as_bytes()), &[0]), second.as_bytes()))
}

/// The finalizer of splitmix64. FNV alone gives similar hashes to names that differ in the last digit.
pub(super) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// FNV-1a, continued from `state`.
fn fnv1a(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
