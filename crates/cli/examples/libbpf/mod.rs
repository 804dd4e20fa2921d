//! The first steps of the loaders: they open an object and change its variables.

use std::ffi::CStr;

use libbpf_sys as bpf;

/// An object that libbpf has opened.
#[derive(Clone, Copy)]
pub struct Object(pub *mut bpf::bpf_object);

impl Object {
    /// Opens the file at `path`.
    pub fn open(path: &CStr) -> Result<Self, String> {
        // SAFETY: the path is a text with an end.
        let object = unsafe { bpf::bpf_object__open_file(path.as_ptr(), std::ptr::null()) };
        match object.is_null() {
            true => Err("the object cannot be opened".to_owned()),
            false => Ok(Self(object)),
        }
    }

    /// The map with this name, or a null pointer.
    pub fn map(self, name: &CStr) -> *mut bpf::bpf_map {
        // SAFETY: the object is libbpf's, the name a text with an end.
        unsafe { bpf::bpf_object__find_map_by_name(self.0, name.as_ptr()) }
    }

    /// The bytes with which a map begins and, once the object is loaded, those that it shares with the kernel.
    ///
    /// # Safety
    ///
    /// Nothing else refers to them.
    pub unsafe fn image(self, map: &CStr) -> &'static mut [u8] {
        let mut size = 0;
        // SAFETY: the map is libbpf's; the caller guarantees the rest.
        unsafe {
            let start = bpf::bpf_map__initial_value(self.map(map), &raw mut size).cast::<u8>();
            std::slice::from_raw_parts_mut(start, size as usize)
        }
    }

    /// Loads it.
    pub fn load(self) -> Result<(), String> {
        // SAFETY: the object is libbpf's.
        match unsafe { bpf::bpf_object__load(self.0) } {
            0 => Ok(()),
            _ => Err("the object cannot be loaded".to_owned()),
        }
    }
}
