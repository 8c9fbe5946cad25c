//! Rows by key. A table records which rows changed since they were last saved.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// A row of a table as its file stores it: its key and its content. `None`: the row was removed.
pub type Row<K, V> = (K, Option<V>);

#[derive(Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

/// Reads are those of the map. A change must be recorded, so there is no `DerefMut`.
impl<K, V> Deref for Table<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

impl<V> Table<String, V> {
    /// Returns the rows whose keys start with a prefix, in the order of their keys. They contain no `~`.
    pub fn with_prefix(&self, prefix: &str) -> impl DoubleEndedIterator<Item = (&String, &V)> {
        self.range(prefix.to_owned()..format!("{prefix}~"))
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (stored, _) = self.rows.get_key_value(key)?;
        self.changed.insert(stored.clone());
        self.rows.get_mut(key)
    }

    pub fn insert(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (key, row) = self.rows.remove_entry(key)?;
        self.changed.insert(key);
        Some(row)
    }

    pub fn remove_first_if(&mut self, condition: impl FnOnce(&K) -> bool) -> Option<(K, V)> {
        let first = self.rows.first_entry().filter(|entry| condition(entry.key()))?;
        let (key, row) = first.remove_entry();
        self.changed.insert(key.clone());
        Some((key, row))
    }

    pub fn take_changes(&mut self) -> Vec<Row<K, V>> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .map(|key| {
                let row = self.rows.get(&key).cloned();
                (key, row)
            })
            .collect()
    }

    /// Restores rows that were saved. Those that remain count as changed, so that the next changes are all rows.
    pub fn restore(&mut self, saved: impl IntoIterator<Item = Row<K, V>>) {
        for (key, row) in saved {
            if let Some(row) = row {
                self.insert(key, row);
            } else {
                self.rows.remove(&key);
                self.changed.remove(&key);
            }
        }
    }
}
