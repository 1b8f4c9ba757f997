//! Runs the check that FUZZ_TARGET names, by libFuzzer if it was compiled with `--cfg fuzzing`.

#![cfg_attr(fuzzing, no_main)]

use fuzz_targets::{TARGETS, Target};

fn target() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    let Some(target) = found else {
        let names = TARGETS.map(|target| target.name).join(", ");
        eprintln!("FUZZ_TARGET is {name:?}, but must be one of {names}");
        std::process::exit(2);
    };
    *target
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: std::sync::LazyLock<Target> = std::sync::LazyLock::new(target);
    (TARGET.check)(bytes);
});

/// Without a fuzzer: checks the files that are named.
#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let target = target();
    for path in std::env::args_os().skip(1) {
        (target.check)(&std::fs::read(path)?);
    }
    Ok(())
}
