//! Compiled sources, and other results that take long to make, kept in the user's cache folder from one command to the next.
//!
//! An object depends on how it is compiled, and on the files that clang reads. The first is known before; the files are kept in a list beside the
//! objects, for each way of compiling a source. An object is used again if all files on the list have the contents that they had, and no folder
//! in which clang looks for headers has others than it had, because one of those might now be found first.
//!
//! Nothing depends on the cache: where it cannot be used, there is none, and that is no error. Files appear in it complete, and are only
//! believed if their name fits their contents, so that it does not matter which other processes use it, and how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// How much the cache may keep, in bytes. Objects have some hundred kB.
const MOST: u64 = 256 << 20;
/// The size that is left after something had to go.
const LEFT: u64 = MOST / 4 * 3;
/// How much earlier than its writing a file's time may be: the system's clock for files is coarse.
const COARSE: Duration = Duration::from_millis(10);

/// The cache folder.
pub struct Cache {
    folder: PathBuf,
}

/// A way to compile a source: a hash of everything but the contents of files.
pub struct Way {
    hash: String,
    /// The folders in which clang looks for headers.
    folders: Vec<PathBuf>,
}

impl Cache {
    /// The cache of this user: in `XDG_CACHE_HOME`, or in `.cache` of `HOME`. `None` if there is no such folder and none can be made, or if
    /// others may write to it.
    pub fn find() -> Option<Self> {
        let absolute =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Self::at(base.join("fairground/objects"))
    }

    fn at(folder: PathBuf) -> Option<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder).ok()?;
        let metadata = fs::metadata(&folder).ok()?;
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        (is_own && metadata.mode() & 0o022 == 0).then_some(Self { folder })
    }

    /// The object and the warnings that came of compiling the present files in this way.
    pub fn find_object(&self, way: &Way) -> Option<(Vec<u8>, String)> {
        let list = self.read(&way.hash, "inputs")?;
        let list = String::from_utf8(list).ok()?;
        let inputs: Vec<PathBuf> = list.lines().map(PathBuf::from).collect();
        let hash = way.with(&inputs, None)?;
        let bytes = self.read(&hash, "object")?;
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (warnings, object) = rest.split_at_checked(length)?;
        let warnings = String::from_utf8(warnings.to_vec()).ok()?;
        Some((object.to_vec(), warnings))
    }

    /// Keeps the results of compiling in this way since `started`, for which clang has read `inputs`. Files that have changed since may not be
    /// those that clang has read: then nothing is kept.
    pub fn keep(
        &self,
        way: &Way,
        inputs: &[PathBuf],
        started: SystemTime,
        object: &[u8],
        warnings: &str,
    ) {
        let list: Option<Vec<&str>> = inputs.iter().map(|path| path.to_str()).collect();
        let is_line = |path: &&str| !path.contains('\n');
        let Some(list) = list.filter(|list| list.iter().all(is_line)) else { return };
        let Some(hash) = way.with(inputs, Some(started)) else { return };
        let length = (warnings.len() as u64).to_le_bytes();
        let content = [&length, warnings.as_bytes(), object].concat();
        self.write(&hash, "object", &content);
        self.write(&way.hash, "inputs", list.join("\n").as_bytes());
        self.tidy();
    }

    /// The content that was kept under these parts.
    pub fn content(&self, parts: &[&[u8]]) -> Option<Vec<u8>> {
        self.read(&name_of(parts), "code")
    }

    /// Keeps the content that was made from these parts.
    pub fn keep_content(&self, parts: &[&[u8]], content: &[u8]) {
        self.write(&name_of(parts), "code", content);
        self.tidy();
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    /// The content of a file behind the hash of it.
    fn read(&self, name: &str, kind: &str) -> Option<Vec<u8>> {
        let path = self.path(name, kind);
        let bytes = fairground_files::read(&path).ok()?;
        let (hash, content) = bytes.split_first_chunk::<32>()?;
        if Sha256::digest(content)[..] != hash[..] {
            let _ = fs::remove_file(&path);
            return None;
        }
        // Files in use stay longest.
        if let Ok(file) = File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(content.to_vec())
    }

    fn write(&self, name: &str, kind: &str, content: &[u8]) {
        let bytes = [&Sha256::digest(content)[..], content].concat();
        let _ = fairground_files::write(&self.path(name, kind), &bytes);
    }

    /// Removes the files that have not been used for longest, if there is too much.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        let mut size: u64 = files.iter().map(|file| file.1).sum();
        if size <= MOST {
            return;
        }
        files.sort_unstable();
        for (_, length, path) in files {
            if size <= LEFT {
                return;
            }
            if fs::remove_file(path).is_ok() {
                size -= length;
            }
        }
    }
}

impl Way {
    /// The way that `parts` describe, with headers looked for in `folders`.
    pub fn new(parts: &[&[u8]], folders: Vec<PathBuf>) -> Self {
        let searched = folders.iter().map(|folder| folder.as_os_str().as_encoded_bytes());
        let parts: Vec<&[u8]> = parts.iter().copied().chain(searched).collect();
        Self { hash: name_of(&parts), folders }
    }

    /// The hash of the way with the files that clang reads. `None` if that is not possible, or if a file may have changed since `started`.
    fn with(&self, inputs: &[PathBuf], started: Option<SystemTime>) -> Option<String> {
        let mut hasher = Sha256::new();
        add(&mut hasher, self.hash.as_bytes());
        for path in inputs {
            let (changed, content) = content(path)?;
            if started.is_some_and(|started| changed + COARSE > started) {
                return None;
            }
            add(&mut hasher, path.as_os_str().as_encoded_bytes());
            add(&mut hasher, &content);
        }
        for folder in self.searched(inputs) {
            add(&mut hasher, folder.as_os_str().as_encoded_bytes());
            for name in headers_in(&folder) {
                add(&mut hasher, name.as_bytes());
            }
        }
        Some(hexadecimal(&hasher.finalize()))
    }

    /// Where other headers than those read could be found: the folders in which clang looks, those of the files that it read, and in each of them the
    /// folders that names of headers begin with.
    fn searched(&self, inputs: &[PathBuf]) -> BTreeSet<PathBuf> {
        let mut searched: BTreeSet<PathBuf> = self.folders.iter().cloned().collect();
        let mut inner = BTreeSet::new();
        for input in inputs {
            searched.extend(input.parent().map(Path::to_owned));
            let names = self.folders.iter().filter_map(|one| input.strip_prefix(one).ok());
            inner.extend(names.filter_map(Path::parent).map(Path::to_owned));
        }
        let inside = self.folders.iter();
        let inside = inside.flat_map(|folder| inner.iter().map(move |one| folder.join(one)));
        searched.extend(inside.collect::<Vec<_>>());
        searched
    }
}

/// When a file was changed, and a hash of its contents. Sources share most of their headers, so that it is remembered.
fn content(path: &Path) -> Option<(SystemTime, [u8; 32])> {
    type Stamp = (u64, u64, i64, i64);
    static KNOWN: Mutex<BTreeMap<PathBuf, (Stamp, [u8; 32])>> = Mutex::new(BTreeMap::new());
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let changed = metadata.modified().ok()?;
    let stamp = (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec());
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, hash)) = known.get(path).filter(|known| known.0 == stamp) {
        return Some((changed, *hash));
    }
    drop(known);
    let hash = Sha256::digest(fairground_files::read_rest(file).ok()?).into();
    // A file that changes again at once may have the same times.
    if SystemTime::now() > changed + 2 * COARSE {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(path.to_owned(), (stamp, hash));
    }
    Some((changed, hash))
}

/// The headers in a folder, and the folders in which there may be some; empty if there is no such folder.
fn headers_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let path = entry.path();
            let extension = path.extension().and_then(|one| one.to_str());
            matches!(extension, Some("h" | "inc" | "def")) || path.is_dir()
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// A hash of all parts.
pub fn hash<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.for_each(|part| add(&mut hasher, part));
    hasher.finalize().into()
}

/// Adds a part to a hash, so that no other parts give the same bytes.
fn add(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_le_bytes());
    hasher.update(part);
}

fn name_of(parts: &[&[u8]]) -> String {
    hexadecimal(&hash(parts.iter().copied()))
}

fn hexadecimal(digits: &[u8]) -> String {
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files in a list of dependencies for make, as clang writes it with `-MD`.
pub fn files_in(list: &str) -> Vec<PathBuf> {
    let Some((_, list)) = list.split_once(": ") else { return Vec::new() };
    let mut files = Vec::new();
    let mut name = String::new();
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('\n')) => {}
            ('\\', Some(' ' | '#')) | ('$', Some('$')) => name.extend(letters.next()),
            (' ' | '\n', _) => files.extend(take(&mut name)),
            _ => name.push(letter),
        }
    }
    files.extend(take(&mut name));
    files
}

fn take(name: &mut String) -> Option<PathBuf> {
    let name = std::mem::take(name);
    (!name.is_empty()).then(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder {
        whole: tempfile::TempDir,
        cache: Cache,
        inputs: Vec<PathBuf>,
    }

    /// A cache, and a source that includes a header from the second of two folders.
    fn folder() -> Folder {
        let whole = tempfile::tempdir().unwrap();
        let path = |name: &str| whole.path().join(name);
        for name in ["first", "second/sub"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let inputs = vec![path("a.bpf.c"), path("second/sub/b.h")];
        for input in &inputs {
            fs::write(input, "text").unwrap();
        }
        let cache = Cache::at(path("cache")).unwrap();
        Folder { cache, inputs, whole }
    }

    impl Folder {
        fn path(&self, name: &str) -> PathBuf {
            self.whole.path().join(name)
        }

        fn way(&self, part: &str) -> Way {
            let folders = ["first", "second"].map(|name| self.path(name));
            Way::new(&[part.as_bytes()], folders.to_vec())
        }

        fn keep(&self) {
            let started = SystemTime::now() + 2 * COARSE;
            let way = self.way("-O2");
            self.cache.keep(&way, &self.inputs, started, b"object", "warning");
        }

        fn found(&self) -> bool {
            let found = self.cache.find_object(&self.way("-O2"));
            let expected = (b"object".to_vec(), "warning".to_owned());
            found.is_some_and(|found| found == expected)
        }
    }

    #[test]
    fn what_was_kept_is_found_until_something_changes() {
        let folder = folder();
        assert!(!folder.found());
        folder.keep();
        assert!(folder.found());
        assert!(folder.cache.find_object(&folder.way("-O1")).is_none());
        fs::write(&folder.inputs[1], "other").unwrap();
        assert!(!folder.found());
        fs::write(&folder.inputs[1], "text").unwrap();
        assert!(folder.found());
        fs::write(folder.path("second/readme.txt"), "").unwrap();
        assert!(folder.found());
    }

    #[test]
    fn a_header_that_would_be_found_first_counts() {
        for name in ["first/b.h", "first/sub/b.h", "b.h", "second/sub/c.h"] {
            let folder = folder();
            folder.keep();
            let path = folder.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            assert!(name.starts_with("first/sub") || folder.found(), "{name}");
            fs::write(path, "").unwrap();
            assert!(!folder.found(), "{name}");
        }
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let folder = folder();
        folder.keep();
        for entry in fs::read_dir(folder.path("cache")).unwrap() {
            let path = entry.unwrap().path();
            let whole = fs::read(&path).unwrap();
            for damaged in [&whole[..whole.len() - 1], &whole[..7], b""] {
                fs::write(&path, damaged).unwrap();
                assert!(!folder.found());
                fs::write(&path, &whole).unwrap();
            }
            assert!(folder.found());
        }
    }

    #[test]
    fn what_may_have_changed_while_it_was_read_is_not_kept() {
        let folder = folder();
        let started = SystemTime::now() - Duration::from_secs(1);
        let way = folder.way("-O2");
        folder.cache.keep(&way, &folder.inputs, started, b"object", "warning");
        assert!(!folder.found());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder();
        let path = folder.path("cache");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::at(path).is_none());
        assert!(Cache::at(PathBuf::from("/proc/none")).is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = folder();
        folder.keep();
        let old = folder.path("cache/old.object");
        let file = File::create(&old).unwrap();
        file.set_len(MOST).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        folder.cache.tidy();
        assert!(!old.exists());
        assert!(folder.found());
    }

    #[test]
    fn lists_of_dependencies_are_read() {
        let list = "a.o: ./a.c \\\n  b\\ c.h d\\#e.h \\\n f$$g.h\n";
        let expected = ["./a.c", "b c.h", "d#e.h", "f$g.h"].map(PathBuf::from);
        assert_eq!(files_in(list), expected);
        assert_eq!(files_in(""), Vec::<PathBuf>::new());
    }
}
