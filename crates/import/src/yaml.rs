//! YAML as a flat tree: nodes in a list, those of anchors shared and never copied.

use saphyr_parser::{Event, Parser, ScanError};

use crate::error::{At, ImportError, ImportErrorKind};

/// Most nodes. A text of the longest length has less that means something.
const NODES_MAX: usize = 200_000;
/// Deepest node.
const DEPTH_MAX: usize = 64;

/// Most mappings that are looked at for one key: merges may lead back to where they began.
const MERGES_MAX: usize = 64;

/// A node's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id(usize);

pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    Scalar(String),
    Sequence(Vec<Id>),
    /// Keys and values.
    Mapping(Vec<(Id, Id)>),
}

/// The first document of a text.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    root: Option<Id>,
}

/// A collection that has not ended: its node, and a key that waits for its value.
struct Open {
    id: Id,
    key: Option<Id>,
}

impl Tree {
    pub(crate) fn parse(text: &str) -> Result<Tree, ImportError> {
        let mut tree = Tree { nodes: Vec::new(), root: None };
        let mut anchors: Vec<Option<Id>> = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| refused(&error, text))?;
            let at = At { line: span.start.line(), column: span.start.col() + 1 };
            let (value, anchor) = match event {
                Event::Scalar(text, _, anchor, _) => (Value::Scalar(text.into_owned()), anchor),
                Event::SequenceStart(anchor, _) => (Value::Sequence(Vec::new()), anchor),
                Event::MappingStart(anchor, _) => (Value::Mapping(Vec::new()), anchor),
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                    continue;
                }
                Event::Alias(anchor) => {
                    let known = anchors.get(anchor).copied().flatten();
                    let id = known.ok_or_else(|| at.yaml("this names no anchor before it"))?;
                    tree.attach(&mut open, id);
                    continue;
                }
                // One document is a Compose file; what follows it is not looked at.
                Event::DocumentEnd => break,
                _ => continue,
            };
            if tree.nodes.len() == NODES_MAX {
                return Err(at.error(ImportErrorKind::TooMany { what: "values", most: NODES_MAX }));
            }
            let id = Id(tree.nodes.len());
            let is_collection = !matches!(value, Value::Scalar(_));
            tree.nodes.push(Node { at, value });
            if anchor > 0 {
                if anchors.len() <= anchor {
                    anchors.resize(anchor + 1, None);
                }
                anchors[anchor] = Some(id);
            }
            tree.attach(&mut open, id);
            if is_collection {
                if open.len() == DEPTH_MAX {
                    return Err(at.yaml("values are too deep in others"));
                }
                open.push(Open { id, key: None });
            }
        }
        Ok(tree)
    }

    /// Puts the node `id` into the innermost collection.
    fn attach(&mut self, open: &mut [Open], id: Id) {
        let Some(innermost) = open.last_mut() else {
            self.root.get_or_insert(id);
            return;
        };
        match &mut self.nodes[innermost.id.0].value {
            Value::Sequence(items) => items.push(id),
            Value::Mapping(pairs) => match innermost.key.take() {
                Some(key) => pairs.push((key, id)),
                None => innermost.key = Some(id),
            },
            Value::Scalar(_) => {}
        }
    }

    pub(crate) fn root(&self) -> Option<Id> {
        self.root
    }

    pub(crate) fn at(&self, id: Id) -> At {
        self.nodes[id.0].at
    }

    /// The text of a scalar; `None` of a collection.
    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match &self.nodes[id.0].value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Items of a sequence; none of anything else.
    pub(crate) fn items(&self, id: Id) -> &[Id] {
        match &self.nodes[id.0].value {
            Value::Sequence(items) => items,
            _ => &[],
        }
    }

    /// Keys and values of a mapping, without those of mappings that are merged into it; none of anything else.
    pub(crate) fn pairs(&self, id: Id) -> impl Iterator<Item = (&str, Id)> {
        let pairs = match &self.nodes[id.0].value {
            Value::Mapping(pairs) => pairs.as_slice(),
            _ => &[],
        };
        pairs.iter().filter_map(|(key, value)| Some((self.text(*key)?, *value)))
    }

    /// The value of `key` in a mapping, or else in those that are merged into it with `<<`.
    pub(crate) fn get(&self, id: Id, key: &str) -> Option<Id> {
        let mut left = MERGES_MAX;
        self.get_within(id, key, &mut left)
    }

    fn get_within(&self, id: Id, key: &str, left: &mut usize) -> Option<Id> {
        *left = left.checked_sub(1)?;
        if let Some((_, value)) = self.pairs(id).find(|(name, _)| *name == key) {
            return Some(value);
        }
        let merged = self.pairs(id).find(|(name, _)| *name == "<<").map(|(_, value)| value)?;
        let one = [merged];
        let all = if self.items(merged).is_empty() { &one } else { self.items(merged) };
        all.iter().find_map(|merged| self.get_within(*merged, key, left))
    }
}

impl At {
    fn yaml(self, message: &str) -> ImportError {
        self.error(ImportErrorKind::Yaml { message: message.to_owned() })
    }
}

fn refused(error: &ScanError, text: &str) -> ImportError {
    let marker = error.marker();
    let message: String = error.info().chars().filter(|c| !c.is_control()).take(200).collect();
    // The end of a text is a line of its own for the parser.
    let lines = text.matches(['\n', '\r']).count() + 1;
    At { line: marker.line().clamp(1, lines), column: marker.col() + 1 }
        .error(ImportErrorKind::Yaml { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_and_anchors_are_followed() {
        let text = "x: &x\n  a: 1\n  b: {c: 2}\ny:\n  <<: *x\n  a: 3\nz:\n  <<: [*x]\n";
        let tree = Tree::parse(text).unwrap();
        let root = tree.root().unwrap();
        let of = |name: &str, key: &str| {
            let value = tree.get(tree.get(root, name)?, key)?;
            tree.text(value).or_else(|| tree.text(tree.get(value, "c")?))
        };
        assert_eq!(
            [of("y", "a"), of("y", "b"), of("z", "a"), of("z", "d")],
            [Some("3"), Some("2"), Some("1"), None]
        );
    }

    #[test]
    fn merges_that_lead_back_end() {
        let tree = Tree::parse("&a\n<<: *a\nb: 1\n").unwrap();
        assert_eq!(tree.get(tree.root().unwrap(), "c"), None);
        let wide = "&a\n<<: [*a, *a, *a, *a]\n";
        let tree = Tree::parse(wide).unwrap();
        assert_eq!(tree.get(tree.root().unwrap(), "c"), None);
    }

    #[test]
    fn deep_and_broken_texts_are_refused() {
        for text in ["[".repeat(10_000), "a: *b".to_owned(), "a: [".to_owned(), "a: 'x".to_owned()]
        {
            assert!(Tree::parse(&text).is_err(), "{}", &text[..text.len().min(20)]);
        }
    }
}
