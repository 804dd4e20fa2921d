//! Links between documents lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All documents below a folder, without those that tests and builds write.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "printed"].contains(&name.as_str()) {
                found.extend(documents(&path));
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines of a document that are no code.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).collect()
}

/// The targets of the links in a text that lead to a file or a heading.
fn links(text: &str) -> Vec<String> {
    // Every other part is code.
    let plain = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("_");
    let lines = prose(text).into_iter().map(plain).collect::<Vec<_>>();
    let text = lines.join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        let is_elsewhere = target.starts_with("https:") || target.starts_with("http:");
        (!is_elsewhere).then(|| target.to_owned())
    });
    targets.collect()
}

/// The name by which a link refers to a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let kept: String = heading.chars().filter(is_kept).collect();
    kept.replace(' ', "-")
}

/// Why a link of the document leads nowhere.
fn fault(document: &Path, target: &str) -> Option<String> {
    let (file, part) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => document.to_owned(),
        _ => document.parent().unwrap().join(file),
    };
    if !path.exists() {
        return Some(format!("{}: no {target}", document.display()));
    }
    if part.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&path).unwrap();
    let mut headings = prose(&text).into_iter().filter(|one| one.starts_with('#'));
    let is_there = headings.any(|heading| anchor(heading) == part);
    (!is_there).then(|| format!("{}: no heading {target}", document.display()))
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut count = 0;
    let mut faults = Vec::new();
    for document in documents(&project()) {
        for target in links(&fs::read_to_string(&document).unwrap()) {
            count += 1;
            faults.extend(fault(&document, &target));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert!(count > 100, "{count} links were found");
}

#[test]
fn dead_links_are_found() {
    let document = project().join("docs/metrics.md");
    assert_eq!(fault(&document, "sweeps.md#results"), None);
    assert!(fault(&document, "sweeps.md#nothing").is_some());
    assert!(fault(&document, "nothing.md").is_some());
    let text = "[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n[g](https://h) [i](#j)";
    assert_eq!(links(text), ["b.md", "#j"]);
    assert_eq!(anchor("## The `k` of l, and m"), "the-k-of-l-and-m");
}

#[test]
fn the_book_has_every_page_of_docs() {
    let docs = project().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed = links(&summary);
    let listed: Vec<PathBuf> = listed.iter().map(|target| docs.join(target)).collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let mut pages: BTreeSet<PathBuf> = documents(&docs).into_iter().collect();
    pages.remove(&docs.join("SUMMARY.md"));
    assert_eq!(once, pages);
}
