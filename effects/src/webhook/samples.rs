//! Sample bodies of all events. The description of the API shows them, and an endpoint's test sends them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use domain::webhook::event_type::{EventType, Family};

/// A body of each event, by the name of its schema. Tests compare them with the schemas.
pub const SAMPLES: &str = include_str!("samples.json");

/// Returns the sample of an event's object: `data.object` of canonical events, `data` of legacy ones.
pub(super) fn sample(event_type: EventType) -> Option<Value> {
    let (family, name) = (event_type.family(), event_type.as_str());
    let samples: BTreeMap<String, Map<String, Value>> = serde_json::from_str(SAMPLES).ok()?;
    let type_field = match family {
        Family::Canonical => "type",
        Family::Legacy => "event",
    };
    let is_it = |body: &Map<String, Value>| body.get(type_field).and_then(Value::as_str) == Some(name);
    let data = samples.into_values().find(is_it)?.remove("data")?;
    match family {
        Family::Canonical => data.get("object").cloned(),
        Family::Legacy => Some(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_a_sample() {
        for (name, event_type) in EventType::ALL {
            assert!(sample(*event_type).is_some_and(|object| object.is_object()), "{name}");
        }
    }
}
