//! Names and label values that are made from the names of users' objects.
//!
//! An HPA's name has up to 253 characters, a Service's name and a label's value up to 63. A name
//! that is too long is cut, and a digest of the whole name keeps two long ones apart.

/// The API's limit for a Service's name and for a label's value.
const MAX_LENGTH: usize = 63;

/// The name of the Service that selects the pods of a managed Service: `<service>-private`.
pub fn private_name(service: &str) -> String {
    shortened(service, "-private")
}

/// The value of the label with the name of a workload.
pub fn workload_label(name: &str) -> String {
    shortened(name, "")
}

fn shortened(name: &str, suffix: &str) -> String {
    if name.len() + suffix.len() <= MAX_LENGTH {
        return format!("{name}{suffix}");
    }
    let end = format!("-{:08x}{suffix}", digest(name));
    let kept = name.get(..name.floor_char_boundary(MAX_LENGTH - end.len())).unwrap_or_default();
    format!("{kept}{end}")
}

fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_up_to_the_limit_of_the_api_stay_apart_when_they_are_cut() {
        let long = |end: &str| format!("{}.{end}", "a".repeat(251 - end.len()));
        assert_eq!((private_name("web"), workload_label("web")), ("web-private".into(), "web".into()));
        let whole = "a".repeat(63);
        assert_eq!(workload_label(&whole), whole);
        for shorten in [private_name as fn(&str) -> String, workload_label] {
            let (one, other) = (shorten(&long("1")), shorten(&long("2")));
            assert!(one.len() == 63 && other.len() == 63 && one != other, "{one} {other}");
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric();
            assert!(is_valid(one.bytes().next().unwrap()) && is_valid(one.bytes().last().unwrap()));
        }
    }

    /// Services with these names exist in clusters.
    #[test]
    fn cut_name_of_a_private_service_is_as_in_earlier_versions() {
        let name = format!("{}-b", "a".repeat(60));
        let kept = "a".repeat(63 - "-00000000-private".len());
        assert_eq!(private_name(&name), format!("{kept}-{:08x}-private", digest(&name)));
    }
}
