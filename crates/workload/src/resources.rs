//! The old `resources` object, which rt-app still checks although it no longer needs it.

use crate::error::Error;
use crate::json::Value;
use crate::notes::Remark;
use crate::object::Field;
use crate::task::OLD_LANGUAGE;

/// Types of resources in rt-app.
const TYPES: [&str; 8] = ["mutex", "signal", "wait", "broadcast", "sync", "sleep", "run", "timer"];

/// Checks the object; nothing in it is needed, because events name the resources that they use.
pub(crate) fn check(field: &Field) -> Result<(), Error> {
    // Their number stood there before rt-app 1.0.
    if matches!(field.value, Some(Value::Number(_))) {
        return Err(field.key_error(OLD_LANGUAGE));
    }
    let resources = field.object()?;
    for (index, field) in resources.fields().enumerate() {
        resources.check_unique(index, &field)?;
        let resource = field.object()?;
        resource.check_keys_as_rt_app(&["type", "target"], false)?;
        let Some(kind) = resource.get("type") else { continue };
        if !TYPES.contains(&kind.string()?) {
            return Err(kind.mismatch(&format!("one of {}", TYPES.join(", "))));
        }
        resource.string("target")?;
    }
    field.key_remark(Remark::Resources);
    Ok(())
}
