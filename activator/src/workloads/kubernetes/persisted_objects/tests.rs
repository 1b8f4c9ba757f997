use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// An object, by its name and version.
    Apply(u8, u8),
    Delete(u8),
    List(BTreeMap<u8, u8>),
    Write,
    /// A write fails.
    LoseFile,
    /// The process ends while it appends, and its successor lists the objects.
    Restart(BTreeMap<u8, u8>),
}

/// The objects of one process, and what they have to be.
struct Fixture {
    directory: PathBuf,
    persisted: PersistedObjects<ConfigMap>,
    expected: BTreeMap<u8, u8>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let list = || prop::collection::btree_map(0..6_u8, 0..4_u8, 0..6);
    let step = prop_oneof![
        4 => (0..6_u8, 0..4_u8).prop_map(|(name, version)| Step::Apply(name, version)),
        2 => (0..6_u8).prop_map(Step::Delete),
        1 => list().prop_map(Step::List),
        4 => Just(Step::Write),
        1 => Just(Step::LoseFile),
        1 => list().prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 0..40)
}

fn object((name, version): (u8, u8)) -> Decoded<ConfigMap> {
    let namespace = if name % 2 == 0 { "shop" } else { "other" };
    let metadata =
        json!({"namespace": namespace, "name": name.to_string(), "resourceVersion": version.to_string()});
    serde_json::from_value::<ConfigMap>(json!({"metadata": metadata})).unwrap().into()
}

// === impl Fixture ===

impl Fixture {
    fn new(directory: PathBuf) -> Self {
        fs::create_dir_all(&directory).unwrap();
        let persisted = PersistedObjects::new(Some(&directory), "objects");
        Self { directory, persisted, expected: BTreeMap::new() }
    }

    fn path(&self) -> PathBuf {
        self.directory.join("objects.log")
    }

    async fn apply(&mut self, step: Step) {
        match step {
            Step::Apply(name, version) => {
                self.persisted.apply(&Event::Apply(object((name, version))));
                self.expected.insert(name, version);
            }
            Step::Delete(name) => {
                self.persisted.apply(&Event::Delete(object((name, 0))));
                self.expected.remove(&name);
            }
            Step::List(objects) => self.list(objects),
            Step::Write => self.write().await,
            Step::LoseFile => drop(fs::remove_file(self.path())),
            Step::Restart(objects) => {
                let mut file = fs::read(self.path()).unwrap_or_default();
                file.extend(br#"{"metadata": {"na"#);
                fs::write(self.path(), file).unwrap();
                self.persisted = PersistedObjects::new(Some(&self.directory), "objects");
                self.list(objects);
            }
        }
    }

    fn list(&mut self, objects: BTreeMap<u8, u8>) {
        self.persisted.apply(&Event::Init);
        objects.clone().into_iter().for_each(|it| self.persisted.apply(&Event::InitApply(object(it))));
        self.persisted.apply(&Event::InitDone);
        self.expected = objects;
    }

    async fn write(&mut self) {
        // The first write after an error replaces the file.
        for _ in 0..2 {
            self.persisted.due = Some(Instant::now());
            self.persisted.progress().await;
            self.persisted.progress().await;
        }
        assert_eq!(self.read(), self.expected);
    }

    fn read(&self) -> BTreeMap<u8, u8> {
        let number = |text: Option<String>| text.unwrap().parse().unwrap();
        let objects = self.persisted.load().into_iter().map(|object| object.metadata);
        objects.map(|meta| (number(meta.name), number(meta.resource_version))).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn file_has_the_present_objects_after_any_changes(steps in steps()) {
        let name = format!("activator-log-{}", std::process::id());
        let mut fixture = Fixture::new(std::env::temp_dir().join(name));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for step in steps {
                fixture.apply(step).await;
            }
            fixture.write().await;
        });
        fs::remove_dir_all(&fixture.directory).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn file_stays_small_while_one_object_changes() {
    let directory = std::env::temp_dir().join(format!("activator-log-size-{}", std::process::id()));
    let mut fixture = Fixture::new(directory);
    for i in 0..3 * SPARE_LINES {
        fixture.apply(Step::Apply(0, u8::from(i % 2 == 0))).await;
        fixture.persisted.due = Some(Instant::now());
        fixture.persisted.progress().await;
        fixture.persisted.progress().await;
    }
    let lines = fs::read_to_string(fixture.path()).unwrap().lines().count();
    assert!(lines <= SPARE_LINES + 2, "{lines}");
    assert_eq!(fixture.read(), fixture.expected);
    fs::remove_dir_all(&fixture.directory).unwrap();
}
