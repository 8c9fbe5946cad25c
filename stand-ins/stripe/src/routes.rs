//! The routes of `routes.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::form::Field;

pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// The path as in Stripe's document. Paths of the control do not start with `/v1/`.
    pub(crate) path: &'static str,
    pub(crate) operation: &'static str,
    /// The start of the ids of the objects, and their name. Empty for other operations than `retrieve` and `list`.
    pub(crate) prefix: &'static str,
    pub(crate) noun: &'static str,
    pub(crate) lines: Vec<&'static str>,
    pub(crate) fields: Vec<Field>,
}

pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut groups: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    let mut routes = Vec::new();
    for block in include_str!("routes.txt").split("\n\n").filter(|block| !block.starts_with('#')) {
        let mut lines = block.lines();
        let head = lines.next().unwrap_or_default();
        let lines: Vec<&str> = lines
            .map(str::trim)
            .flat_map(|line| groups.get(line).cloned().unwrap_or_else(|| vec![line]))
            .collect();
        let mut words = head.split(' ');
        let mut word = || words.next().unwrap_or_default();
        if head.starts_with('@') {
            groups.insert(head, lines);
        } else {
            let (method, path, operation, prefix, noun) = (word(), word(), word(), word(), word());
            let fields = lines.iter().copied().map(Field::parse).collect();
            routes.push(Route { method, path, operation, prefix, noun, lines, fields });
        }
    }
    routes
});

impl Route {
    /// Finds a route, with the id in the path.
    pub(crate) fn find(method: &str, path: &str) -> Option<(&'static Self, String)> {
        ROUTES
            .iter()
            .filter(|route| route.method == method)
            .find_map(|route| Some((route, route.id_in(path)?)))
    }

    /// Returns the segment where the route's path has a name in braces. `None`: another route has the path.
    fn id_in(&self, path: &str) -> Option<String> {
        let mut id = "";
        let (mut expected, mut given) = (self.path.split('/'), path.split('/'));
        loop {
            match (expected.next(), given.next()) {
                (None, None) => return Some(id.to_owned()),
                (Some(name), Some(segment)) if name.starts_with('{') && !segment.is_empty() => id = segment,
                (Some(name), Some(segment)) if name == segment => {}
                _ => return None,
            }
        }
    }

    /// The name of the id in the path, as an error names it.
    pub(crate) fn id_name(&self) -> &'static str {
        self.path.split(['{', '}']).nth(1).unwrap_or("id")
    }
}
