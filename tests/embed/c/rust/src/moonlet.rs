// tests/embed/c/rust/src/moonlet.rs: as much of moonlet/c.h as the host uses, and a safe layer over it.
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr;

pub type Handle = *mut c_void;
const NUMBER: i32 = 3;
const TENSOR: i32 = 5;
const FLOAT32: i32 = 13;

#[repr(C)]
#[derive(Clone, Copy)]
struct Text {
    data: *const c_char,
    size: usize,
}
#[repr(C)]
union As {
    number: f64,
    handle: Handle,
    string: Text,
}
#[repr(C)]
struct Value {
    kind: i32,
    reserved: i32,
    value: As,
}
impl Value {
    fn new() -> Self {
        Value { kind: 0, reserved: 0, value: As { string: Text { data: ptr::null(), size: 0 } } }
    }
}
impl Drop for Value {
    fn drop(&mut self) {
        unsafe { moonlet_value_free(self) };
    }
}

#[link(name = "moonlet")]
extern "C" {
    fn moonlet_open(options: *const c_void, lua: *mut Handle) -> i32;
    fn moonlet_close(lua: Handle) -> i32;
    fn moonlet_run(lua: Handle, code: *const u8, size: usize, name: *const c_char,
                   results: *mut Value, capacity: usize, count: *mut usize) -> i32;
    fn moonlet_call(lua: Handle, path: *const c_char, arguments: *const Value, count: usize,
                    results: *mut Value, capacity: usize, given: *mut usize) -> i32;
    fn moonlet_error_message() -> *const c_char;
    fn moonlet_value_free(value: *mut Value) -> i32;
    fn moonlet_tensor_from_memory(data: *mut c_void, sizes: *const i64, strides: *const i64,
                                  rank: i32, dtype: i32, deleter: Option<extern "C" fn(*mut c_void)>,
                                  user: *mut c_void, tensor: *mut Handle) -> i32;
    fn moonlet_tensor_read(tensor: Handle, memory: *mut c_void, bytes: usize) -> i32;
    fn moonlet_tensor_numel(tensor: Handle, numel: *mut i64) -> i32;
    fn moonlet_live_handles() -> usize;
}

fn check(status: i32) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr(moonlet_error_message()) };
    Err(text.to_string_lossy().into_owned())
}

pub fn live_handles() -> usize {
    unsafe { moonlet_live_handles() }
}

/// A tensor that owns a vector: its memory goes back with the last user.
pub struct Tensor(Value);

extern "C" fn drop_vector(user: *mut c_void) {
    drop(unsafe { Box::from_raw(user as *mut Vec<f32>) });
}

impl Tensor {
    pub fn from_vec(data: Vec<f32>) -> Result<Self, String> {
        let size = data.len() as i64;
        let mut owner = Box::new(data);
        let memory = owner.as_mut_ptr() as *mut c_void;
        let user = Box::into_raw(owner) as *mut c_void;
        let mut value = Value::new();
        let status = unsafe {
            moonlet_tensor_from_memory(memory, &size, ptr::null(), 1, FLOAT32, Some(drop_vector),
                                       user, &mut value.value.handle)
        };
        if status != 0 {
            drop_vector(user);
        }
        check(status)?;
        value.kind = TENSOR;
        Ok(Tensor(value))
    }

    pub fn to_vec(&self) -> Result<Vec<f32>, String> {
        unsafe {
            let mut numel = 0;
            check(moonlet_tensor_numel(self.0.value.handle, &mut numel))?;
            let mut out = vec![0f32; numel as usize];
            check(moonlet_tensor_read(self.0.value.handle, out.as_mut_ptr() as *mut c_void,
                                      4 * out.len()))?;
            Ok(out)
        }
    }
}

pub struct Interpreter(Handle);

impl Interpreter {
    pub fn open() -> Result<Self, String> {
        let mut lua = ptr::null_mut();
        check(unsafe { moonlet_open(ptr::null(), &mut lua) })?;
        Ok(Interpreter(lua))
    }

    pub fn run(&self, code: &str) -> Result<(), String> {
        check(unsafe {
            moonlet_run(self.0, code.as_ptr(), code.len(), ptr::null(), ptr::null_mut(), 0,
                        ptr::null_mut())
        })
    }

    /// Calls a function of a tensor that gives one.
    pub fn map(&self, function: &str, x: &Tensor) -> Result<Tensor, String> {
        let path = CString::new(function).map_err(|e| e.to_string())?;
        let mut out = Value::new();
        check(unsafe {
            moonlet_call(self.0, path.as_ptr(), &x.0, 1, &mut out, 1, ptr::null_mut())
        })?;
        if out.kind != TENSOR {
            return Err(format!("{function}: expected a tensor, got kind {}", out.kind));
        }
        Ok(Tensor(out))
    }

    /// Calls a function of a tensor that gives a number.
    pub fn number(&self, function: &str, x: &Tensor) -> Result<f64, String> {
        let path = CString::new(function).map_err(|e| e.to_string())?;
        let mut out = Value::new();
        check(unsafe {
            moonlet_call(self.0, path.as_ptr(), &x.0, 1, &mut out, 1, ptr::null_mut())
        })?;
        if out.kind != NUMBER {
            return Err(format!("{function}: expected a number, got kind {}", out.kind));
        }
        Ok(unsafe { out.value.number })
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        unsafe { moonlet_close(self.0) };
    }
}
