//! The JSON Schema and the reader know the same keys, of the same types.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_config::{Config, ConfigError};

const BASE: &str = r#"
    [tls]
    certificate = "/c"
    key = "/k"
    [record]
    directory = "/r"
    [device.disk0]
    path = "/srv/disk0.img"
    [cgroup."/a"]
    [export.x]
    device = "disk0"
    cgroup = "/a"
"#;

/// A value of each type of TOML, and its type in JSON: arrays with that of their elements.
const SAMPLES: [(&str, &str); 7] = [
    ("\"x\"", "string"),
    ("7", "integer"),
    ("true", "boolean"),
    ("1.5", "number"),
    ("{}", "object"),
    ("[\"x\"]", "array string"),
    ("[7]", "array integer"),
];

/// A table of the schema: the names that lead to it, and its own part of the schema.
struct Table {
    names: Vec<String>,
    schema: Value,
}

impl Table {
    fn header(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("{name:?}")).collect();
        if names.is_empty() { String::new() } else { format!("[{}]\n", names.join(".")) }
    }

    /// What the reader says of `name = value` in this table, besides what it says of all else.
    fn errors(&self, name: &str, value: &str) -> Vec<ConfigError> {
        let text = format!("{}{name:?} = {value}\n", self.header());
        let read = Config::from_texts([("base", BASE), ("sample", &text)]);
        let errors = read.err().map(|errors| errors.errors().to_vec()).unwrap_or_default();
        errors.into_iter().filter(|error| ends_with(&error.key, name)).collect()
    }
}

/// Whether the last part of a dotted key is `name`, quoted or not.
fn ends_with(key: &str, name: &str) -> bool {
    key == name || key.ends_with(&format!(".{name}")) || key.ends_with(&format!("{name:?}"))
}

/// All tables with keys of their own.
fn tables() -> Vec<Table> {
    let mut found = Vec::new();
    collect(Vec::new(), &weir_config::schema(), &mut found);
    found
}

fn collect(names: Vec<String>, schema: &Value, found: &mut Vec<Table>) {
    if schema["additionalProperties"].is_object() {
        let name = match names.last().map(String::as_str) {
            Some("device") => "disk0",
            Some("cgroup") => "/a",
            _ => "x",
        };
        collect([names, vec![name.into()]].concat(), &schema["additionalProperties"], found);
        return;
    }
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, schema) in properties {
        collect([&names[..], std::slice::from_ref(name)].concat(), schema, found);
    }
    found.push(Table { names, schema: schema.clone() });
}

/// Whether the schema lets a value of this type in.
fn lets_in(schema: &Value, kind: &str) -> bool {
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().any(|schema| lets_in(schema, kind));
    }
    let (outer, inner) = match kind.split_once(' ') {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (kind, None),
    };
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    types.contains(&outer.into()) && inner.is_none_or(|inner| lets_in(&schema["items"], inner))
}

#[test]
fn each_key_is_known_to_the_reader_and_of_the_same_type() {
    let mut keys = 0;
    for table in tables() {
        for (name, schema) in table.schema["properties"].as_object().unwrap() {
            keys += 1;
            assert!(schema["description"].is_string(), "{name} is not described");
            for (value, kind) in SAMPLES {
                let errors = table.errors(name, value);
                let is = |word: &str| errors.iter().any(|error| error.message.starts_with(word));
                assert!(!is("unknown key"), "{:?} {name}: {errors:?}", table.names);
                assert_eq!(
                    !is("expected ") && !is("it can only be true"),
                    lets_in(schema, kind),
                    "{:?} {name} = {value}: {errors:?}",
                    table.names
                );
            }
        }
    }
    assert!(keys > 70, "{keys}");
}

#[test]
fn each_key_of_the_reader_is_in_the_schema() {
    let mut tables = tables();
    assert_eq!(tables.len(), 16);
    for table in &mut tables {
        let errors = table.errors("zzzzzzzzzzzzzz", "1");
        let hint = errors.first().and_then(|error| error.hint.clone()).unwrap_or_default();
        let list = hint.strip_prefix("known keys: ").unwrap_or_else(|| panic!("{errors:?}"));
        let known: BTreeSet<String> =
            list.replace(" and ", ", ").split(", ").map(str::to_owned).collect();
        let described: BTreeSet<String> =
            table.schema["properties"].as_object().unwrap().keys().cloned().collect();
        // A hint need not repeat how files extend each other.
        let marks = ["removed", "replaces"].map(str::to_owned);
        assert!(known.is_subset(&described), "{:?}: {known:?}", table.names);
        let more: Vec<_> =
            described.difference(&known).filter(|key| !marks.contains(key)).collect();
        assert!(more.is_empty(), "{:?}: {more:?}", table.names);
    }
}

#[test]
fn words_and_bounds_are_those_of_the_reader() {
    let (mut words, mut bounds) = (0, 0);
    for table in tables() {
        for (name, schema) in table.schema["properties"].as_object().unwrap() {
            let errors = |value: &str| table.errors(name, value);
            for word in schema["enum"].as_array().into_iter().flatten() {
                words += 1;
                assert_eq!(errors(&word.to_string()), [], "{name} = {word}");
            }
            if schema["enum"].is_array() {
                assert!(!errors("\"no such word\"").is_empty(), "{name}");
            }
            let (Some(least), Some(most)) =
                (schema["minimum"].as_i64(), schema["maximum"].as_i64())
            else {
                continue;
            };
            bounds += 1;
            for (value, is_good) in
                [(least - 1, false), (least, true), (most, true), (most + 1, false)]
            {
                let errors = errors(&value.to_string());
                let refused = errors.iter().any(|error| error.message.contains("is not between"));
                assert_eq!(!refused, is_good, "{name} = {value}: {errors:?}");
            }
        }
    }
    assert!(words >= 14 && bounds >= 8, "{words} {bounds}");
}

/// With the tables of the example, each as the schema has it.
#[test]
fn the_example_has_no_other_keys_than_the_schema() {
    let text = include_str!("../examples/weir.toml");
    let example: toml::Table = text.parse().unwrap();
    fits(&toml::Value::Table(example), &weir_config::schema(), "weir.toml");
}

fn fits(value: &toml::Value, schema: &Value, place: &str) {
    let Some(table) = value.as_table() else { return };
    for (name, value) in table {
        let inner = match schema["properties"].get(name) {
            Some(schema) => schema,
            None => &schema["additionalProperties"],
        };
        assert!(inner.is_object(), "{place}.{name} is not in the schema");
        fits(value, inner, &format!("{place}.{name}"));
    }
}
