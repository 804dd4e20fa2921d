//! The old `resources` object, which rt-app still checks although it no longer needs it.

use crate::error::Error;
use crate::json::Value;
use crate::notes::Remark;
use crate::object::{Field, Reader};
use crate::task::OLD_LANGUAGE;

/// Types of resources in rt-app.
const TYPES: [&str; 8] = ["mutex", "signal", "wait", "broadcast", "sync", "sleep", "run", "timer"];

/// Checks the object; nothing in it is needed, because events name the resources that they use.
pub(crate) fn check(reader: &mut Reader, field: &Field) -> Result<(), Error> {
    // Their number stood there before rt-app 1.0.
    if matches!(field.value, Some(Value::Number(_))) {
        return Err(reader.error(&field.key_place, OLD_LANGUAGE));
    }
    let resources = field.object(reader)?;
    for (index, field) in resources.fields().enumerate() {
        resources.check_unique(reader, index, &field)?;
        let resource = field.object(reader)?;
        resource.check_keys_as_rt_app(reader, &["type", "target"], false)?;
        let Some(kind) = resource.get(reader, "type") else {
            continue;
        };
        if !TYPES.contains(&kind.string(reader)?) {
            return Err(kind.mismatch(reader, &format!("one of {}", TYPES.join(", "))));
        }
        resource.string(reader, "target")?;
    }
    reader.notes.remark(&field.key_place, Remark::Resources);
    Ok(())
}
