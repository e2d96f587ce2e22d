//! How much work it is to compare a value with a schema. Validators have no limit of their own: references multiply the
//! work, and each of them takes a frame of the stack. So it is counted first, without recursion, as if every
//! subschema were compared with everything that it applies to.

use serde_json::Value;

use super::graph::{Graph, Node, TEXT, size, type_of};
use crate::limits;

/// States of a pattern times bytes of a text that count as one step.
const PATTERN_WORK: u64 = 64;
/// Values of a schema, such as those of an `enum`, that are compared in one step.
const CONSTANT_WORK: u64 = 16;
/// Lists of up to this many items are compared item by item; the items of others are hashed.
const COMPARED_ITEMS: u64 = 20;

/// Why a value is not compared with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// It takes more steps than are left.
    Steps,
    /// Subschemas apply to each other and to parts of the value through too many levels.
    Levels,
}

/// The work of comparing a value with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) steps: u64,
    /// How deeply the validator recurses.
    pub(super) levels: usize,
}

/// What is compared with a subschema.
#[derive(Clone, Copy)]
enum Part<'a> {
    Value(&'a Value),
    /// The name of a property.
    Name(&'a str),
}

struct Walk<'a> {
    graph: &'a Graph,
    steps: u64,
    max: u64,
    /// Subschemas with what they are still to be compared with, and at which level.
    open: Vec<(usize, Part<'a>, usize)>,
}

impl Graph {
    /// The work of comparing a value with the whole schema.
    pub(super) fn work(&self, value: &Value, max: u64) -> Result<Work, TooMuch> {
        let mut walk = Walk { graph: self, steps: 0, max, open: vec![(0, Part::Value(value), 0)] };
        let mut levels = 0;
        while let Some((node, part, level)) = walk.open.pop() {
            levels = levels.max(level);
            if level > limits::SCHEMA_LEVELS_MAX {
                return Err(TooMuch::Levels);
            }
            walk.compare(&self.nodes[node], part, level)?;
        }
        Ok(Work { steps: walk.steps, levels })
    }
}

impl<'a> Walk<'a> {
    fn take(&mut self, steps: u64) -> Result<(), TooMuch> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps.saturating_add(self.open.len() as u64) > self.max {
            Err(TooMuch::Steps)
        } else {
            Ok(())
        }
    }

    fn push(&mut self, nodes: &[usize], part: Part<'a>, level: usize) -> Result<(), TooMuch> {
        self.open.extend(nodes.iter().map(|node| (*node, part, level)));
        self.take(0)
    }

    fn compare(&mut self, node: &'a Node, part: Part<'a>, level: usize) -> Result<(), TooMuch> {
        self.take(1 + node.constants / CONSTANT_WORK)?;
        let kind = match part {
            Part::Value(value) => type_of(value),
            Part::Name(_) => TEXT,
        };
        if node.types.is_some_and(|types| types & kind == 0) {
            return Ok(());
        }
        match part {
            Part::Name(text) => self.compare_text(node, text)?,
            Part::Value(Value::String(text)) => self.compare_text(node, text)?,
            Part::Value(value @ Value::Array(items)) => {
                if node.has_unique_items {
                    let length = items.len() as u64;
                    self.take(size(value) * if length <= COMPARED_ITEMS { length } else { 2 })?;
                }
                if self.graph.tracks_evaluated {
                    self.take(items.len() as u64)?;
                }
                for (first, item) in node.first_items.iter().zip(items) {
                    self.push(&[*first], Part::Value(item), level + 1)?;
                }
                for item in items.iter().filter(|_| !node.items.is_empty()) {
                    self.push(&node.items, Part::Value(item), level + 1)?;
                }
            }
            Part::Value(Value::Object(fields)) => {
                for (name, value) in fields {
                    self.compare_property(node, name, value, level + 1)?;
                }
            }
            Part::Value(_) => {}
        }
        self.push(&node.same, part, level + 1)
    }

    fn compare_text(&mut self, node: &Node, text: &str) -> Result<(), TooMuch> {
        let length = text.len() as u64;
        let parsing = if node.parses_patterns { length } else { 0 };
        self.take(length.saturating_mul(1 + node.states + parsing) / PATTERN_WORK)
    }

    fn compare_property(
        &mut self,
        node: &'a Node,
        name: &'a str,
        value: &'a Value,
        level: usize,
    ) -> Result<(), TooMuch> {
        self.take(1)?;
        match node.properties.get(name) {
            Some(own) => self.push(&[*own], Part::Value(value), level)?,
            None => self.push(&node.other_properties, Part::Value(value), level)?,
        }
        // Whether a name matches is not decided here: each pattern counts, and so do other properties.
        for (states, own) in &node.patterns {
            self.take(1 + (name.len() as u64).saturating_mul(*states) / PATTERN_WORK)?;
            self.push(&[*own], Part::Value(value), level)?;
        }
        self.push(&node.all_properties, Part::Value(value), level)?;
        self.push(&node.names, Part::Name(name), level)
    }
}
