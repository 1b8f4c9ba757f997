//! The name of a managed Service's private Service.

/// The API's limit for a Service's name.
const MAX_NAME: usize = 63;

/// The name of the Service that selects the pods: `<service>-private`, shortened where that is too
/// long.
pub fn private_name(service: &str) -> String {
    let name = format!("{service}-private");
    if name.len() <= MAX_NAME {
        return name;
    }
    // The digest of the whole name keeps two long ones apart.
    let digest = format!("{:08x}-private", digest(service));
    let kept = service.get(..MAX_NAME - digest.len() - 1).unwrap_or_default();
    format!("{kept}-{digest}")
}

fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
