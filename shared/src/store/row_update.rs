//! Builds an update, deletion or check of one row. Each attribute and value has a placeholder in the expressions,
//! because an attribute's name may be a reserved word.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, ReturnValue, ReturnValuesOnConditionCheckFailure, Update,
};

use domain::row::Key;

use super::counter::conditional_update;
use super::{Item, Store, StoreError, UpdateOutcome, number};

/// Adds what a [`RowUpdate`] has, except the expression of an update, to a builder of the SDK.
macro_rules! built {
    ($update:expr, $table:expr, $builder:expr) => {{
        let Self { key, conditions, names, values, .. } = $update;
        let built = $builder
            .table_name($table)
            .set_key(Some(key))
            .set_condition_expression(Some(conditions.join(" AND ")).filter(|all| !all.is_empty()))
            .set_expression_attribute_names(Some(names).filter(|names| !names.is_empty()))
            .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()))
            .build();
        built.map_err(|error| StoreError::Corrupt(error.to_string()))
    }};
}

/// A write of one row's attributes, with all its conditions.
#[derive(Clone, Debug)]
#[must_use]
pub struct RowUpdate {
    key: Item,
    sets: Vec<String>,
    adds: Vec<String>,
    removes: Vec<String>,
    conditions: Vec<String>,
    names: HashMap<String, String>,
    values: Item,
}

impl RowUpdate {
    /// An update of the row with this key, which changes nothing yet.
    pub fn of(Key { pk, sk }: Key) -> Self {
        Self::of_item(Item::from(
            [("pk", pk), ("sk", sk)].map(|(name, text)| (name.to_owned(), AttributeValue::S(text))),
        ))
    }

    /// `key` has the attributes of the primary key.
    pub(crate) fn of_item(key: Item) -> Self {
        let (sets, adds, removes, conditions) = Default::default();
        Self { key, sets, adds, removes, conditions, names: HashMap::new(), values: Item::new() }
    }

    fn name(&mut self, name: impl Into<String>) -> String {
        let placeholder = format!("#n{}", self.names.len());
        self.names.insert(placeholder.clone(), name.into());
        placeholder
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    pub fn set(mut self, name: impl Into<String>, value: AttributeValue) -> Self {
        let term = format!("{} = {}", self.name(name), self.value(value));
        self.sets.push(term);
        self
    }

    pub fn set_all(self, attributes: impl IntoIterator<Item = (String, AttributeValue)>) -> Self {
        attributes.into_iter().fold(self, |update, (name, value)| update.set(name, value))
    }

    /// Adds to a number or to a set. An absent attribute counts as 0 or as empty.
    pub fn add(mut self, name: impl Into<String>, value: AttributeValue) -> Self {
        let term = format!("{} {}", self.name(name), self.value(value));
        self.adds.push(term);
        self
    }

    /// Appends to a list. An absent attribute counts as empty.
    pub fn append(mut self, name: &str, elements: Vec<AttributeValue>) -> Self {
        let name = self.name(name);
        let (empty, elements) =
            (self.value(AttributeValue::L(Vec::new())), self.value(AttributeValue::L(elements)));
        self.sets.push(format!("{name} = list_append(if_not_exists({name}, {empty}), {elements})"));
        self
    }

    pub fn add_all(self, counters: impl IntoIterator<Item = (String, i64)>) -> Self {
        counters.into_iter().fold(self, |update, (counter, by)| update.add(counter, number(by)))
    }

    pub fn remove(mut self, name: impl Into<String>) -> Self {
        let name = self.name(name);
        self.removes.push(name);
        self
    }

    pub fn remove_all(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        names.into_iter().fold(self, Self::remove)
    }

    /// Condition: the attribute exists, and compares so with the value. `operator`: `=`, `<`, `<=`, `>` or `>=`.
    pub fn when(mut self, name: &str, operator: &str, value: AttributeValue) -> Self {
        let condition = format!("{} {operator} {}", self.name(name), self.value(value));
        self.conditions.push(condition);
        self
    }

    /// Condition: the attribute is absent, or compares so with the value.
    pub fn when_absent_or(mut self, name: &str, operator: &str, value: AttributeValue) -> Self {
        let (name, value) = (self.name(name), self.value(value));
        self.conditions.push(format!("(attribute_not_exists({name}) OR {name} {operator} {value})"));
        self
    }

    /// Condition: all comparisons of one of the alternatives are true.
    pub fn when_any<const N: usize>(mut self, alternatives: [Vec<(&str, &str, AttributeValue)>; N]) -> Self {
        let alternatives = alternatives.map(|all| {
            let one = |(name, operator, value): (&str, &str, AttributeValue)| {
                format!("{} {operator} {}", self.name(name), self.value(value))
            };
            format!("({})", all.into_iter().map(one).collect::<Vec<_>>().join(" AND "))
        });
        self.conditions.push(format!("({})", alternatives.join(" OR ")));
        self
    }

    /// Condition: the row has no such attribute.
    pub fn when_absent(mut self, name: &str) -> Self {
        let condition = format!("attribute_not_exists({})", self.name(name));
        self.conditions.push(condition);
        self
    }

    pub fn when_exists(mut self) -> Self {
        self.conditions.push("attribute_exists(pk)".to_owned());
        self
    }

    /// Condition: the attribute, a set, is absent or has fewer elements.
    pub fn when_smaller(mut self, name: &str, elements: usize) -> Self {
        let (name, value) = (self.name(name), self.value(AttributeValue::N(elements.to_string())));
        self.conditions.push(format!("(attribute_not_exists({name}) OR size({name}) < {value})"));
        self
    }

    pub(super) fn into_update(self, table: &str) -> Result<Update, StoreError> {
        let clauses = [("SET", &self.sets), ("ADD", &self.adds), ("REMOVE", &self.removes)];
        let clauses = clauses.into_iter().filter(|(_, terms)| !terms.is_empty());
        let clauses: Vec<String> =
            clauses.map(|(clause, terms)| format!("{clause} {}", terms.join(", "))).collect();
        built!(self, table, Update::builder().update_expression(clauses.join(" ")))
    }

    pub(super) fn into_delete(self, table: &str) -> Result<Delete, StoreError> {
        built!(self, table, Delete::builder())
    }

    pub(super) fn into_check(self, table: &str) -> Result<ConditionCheck, StoreError> {
        built!(self, table, ConditionCheck::builder())
    }

    /// Runs the update outside of a transaction, on a row of the store's table. An update that conflicts with a
    /// transaction is retried, as `conditional_update` describes.
    pub async fn run(self, store: &Store) -> Result<UpdateOutcome, StoreError> {
        self.run_in(store.table(), store).await
    }

    /// Like [`Self::run`], on a row of another table.
    pub(crate) async fn run_in(self, table: &str, store: &Store) -> Result<UpdateOutcome, StoreError> {
        if store.is_dry_run {
            return Ok(UpdateOutcome::Done(Item::new()));
        }
        let update = store
            .single_update(&self.into_update(table)?)
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        conditional_update(update).await
    }
}
