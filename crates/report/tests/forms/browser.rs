//! The page in a real browser: Debian's Chromium, without a window.

use crate::sample_page::page;
use crate::small_machine::comparison;
use fairground_report::comparison_page;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const BROWSER: &str = "chromium";

/// Whether there is a browser. Where everything has to be tested there must be one.
fn is_there() -> bool {
    let found = Command::new(BROWSER).arg("--version").output().is_ok();
    assert!(
        found || std::env::var("CI").as_deref() != Ok("true"),
        "{BROWSER} is missing: install Debian's package {BROWSER}"
    );
    if !found {
        eprintln!("skipped: {BROWSER} is missing (Debian's package {BROWSER})");
    }
    found
}

/// The traces of a visit of a page.
struct Visit {
    /// The browser's output.
    output: String,
    /// Messages on the page's console.
    console: Vec<String>,
    /// Addresses that were asked for on the page's behalf.
    requests: Vec<String>,
}

/// Opens a page from a file with an empty profile. No name resolves, so nothing leaves this machine, even if a page, or the browser
/// itself, asks for it.
fn visit(html: &str, folder: &Path, options: &[&str]) -> Visit {
    let file = folder.join("page.html");
    std::fs::write(&file, html).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let network = folder.join("network.json");
    let output = Command::new(BROWSER)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-extensions",
            "--no-first-run",
            "--no-pings",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--log-net-log={}", network.display()))
        .args(options)
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    assert!(output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    let log = std::fs::read_to_string(&network).unwrap();
    Visit {
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: errors
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .map(str::to_owned)
            .collect(),
        requests: addresses(&log),
    }
}

/// The addresses in a log of the network, but for those of Google's that the browser asks for itself.
fn addresses(log: &str) -> Vec<String> {
    let mut addresses: Vec<String> = log
        .split("\"url\":\"")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
        .filter(|address| {
            let host = address.split('/').nth(2).unwrap_or_default();
            let own = ["google.com", "googleapis.com", "gvt1.com"];
            !address.starts_with("file:") && !own.iter().any(|domain| host.ends_with(domain))
        })
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

#[test]
fn the_page_opens_without_an_error_and_asks_for_nothing() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for html in [page().html(), comparison_page(&comparison(), &BTreeMap::new()).html()] {
        let visit = visit(&html, folder.path(), &["--dump-dom"]);
        assert_eq!(visit.console, [] as [&str; 0]);
        assert_eq!(visit.requests, [] as [&str; 0]);
        // The script ran: it gives each timeline its buttons.
        let timelines = html.matches("<figure class=\"timeline\"").count();
        assert_eq!(visit.output.matches("<div class=\"tools\">").count(), timelines);
    }
}

#[test]
fn a_page_that_asks_or_errs_is_noticed() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let html = "<!DOCTYPE html><title>t</title><img src='http://elsewhere.invalid/a.png'><script>nothing()</script>";
    let noticed = visit(html, folder.path(), &["--dump-dom"]);
    assert_eq!(noticed.requests, ["http://elsewhere.invalid/a.png"]);
    assert!(noticed.console.iter().any(|line| line.contains("nothing is not defined")));
}

#[test]
fn it_prints() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("page.pdf");
    let option = format!("--print-to-pdf={}", paper.display());
    visit(&page().html(), folder.path(), &[&option]);
    let printed = std::fs::read(&paper).unwrap();
    assert!(printed.starts_with(b"%PDF") && printed.len() > 10_000);
}

#[test]
fn it_follows_light_and_dark() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // In the browser's value 0 is dark and 1 is light.
    let ground = |scheme: u8| {
        let picture = folder.path().join("page.png");
        let screenshot = format!("--screenshot={}", picture.display());
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        visit(&page().html(), folder.path(), &[&screenshot, &scheme]);
        let file = std::io::BufReader::new(std::fs::File::open(&picture).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        pixels[0]
    };
    assert!(ground(0) < 64);
    assert_eq!(ground(1), 255);
}
