//! The schemas in docs/schema, for the tests of this crate and of the command.

use serde_json::Value;
use std::path::Path;

/// The schema in this file of docs/schema, which may refer to others beside it.
pub fn validator(file: &str) -> jsonschema::Validator {
    let schema = Beside.read(file);
    let options = jsonschema::options().with_base_uri("schema:///").with_retriever(Beside);
    options.build(&schema).unwrap()
}

/// Where a document does not fit the schema in this file, and why.
pub fn faults(file: &str, document: &Value) -> Vec<String> {
    let told = |error: jsonschema::ValidationError| format!("{}: {error}", error.instance_path());
    validator(file).iter_errors(document).map(told).collect()
}

/// Finds the files of docs/schema.
struct Beside;

impl Beside {
    fn read(&self, file: &str) -> Value {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
        serde_json::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap()
    }
}

impl jsonschema::Retrieve for Beside {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.read(uri.path().as_str().trim_start_matches('/')))
    }
}
