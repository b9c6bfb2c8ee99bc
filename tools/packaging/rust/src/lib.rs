#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

/// The functions of c/handles.h. They pass no struct of C, and this file repeats no layout.
mod c {
    use super::*;

    #[repr(C)]
    pub struct Model([u8; 0]);
    #[repr(C)]
    pub struct Pool([u8; 0]);
    #[repr(C)]
    pub struct Session([u8; 0]);

    pub const STOPPED: c_int = 1;
    pub const MESSAGE: usize = 256;

    #[rustfmt::skip]
    extern "C" {
        pub fn vith_result_string(result: c_int) -> *const c_char;
        pub fn vith_version() -> *const c_char;
        pub fn vith_model_open(path: *const c_char, data: *const c_void, size: usize, flags: c_uint,
                               model: *mut *mut Model, message: *mut c_char) -> c_int;
        pub fn vith_model_resized(model: *const Model, height: c_int, width: c_int,
                                  resized: *mut *mut Model, message: *mut c_char) -> c_int;
        pub fn vith_model_close(model: *mut Model);
        pub fn vith_label(model: *const Model, index: c_int) -> *const c_char;
        pub fn vith_number(model: *const Model, which: c_int) -> c_int;
        pub fn vith_pool_open(num_threads: c_int, pool: *mut *mut Pool) -> c_int;
        pub fn vith_pool_threads(pool: *const Pool) -> c_int;
        pub fn vith_pool_close(pool: *mut Pool);
        pub fn vith_session_open(model: *const Model, pool: *const Pool, low_memory: c_int, batch: c_int,
                                 stop: *const i32, session: *mut *mut Session) -> c_int;
        pub fn vith_session_close(session: *mut Session);
        pub fn vith_photo_size(shape: *const i32) -> u64;
        pub fn vith_run(session: *mut Session, count: c_int, pixels: *const *const u8, shapes: *const i32,
                        scores: *mut *const f32, embedding: *mut *const f32) -> c_int;
        pub fn vith_look(session: *mut Session, pixels: *const u8, shape: *const i32, tokens: *mut f32,
                         block: c_int, attention: *mut f32) -> c_int;
        pub fn vith_top_k(scores: *const f32, n: c_int, k: c_int, index: *mut i32, value: *mut f32) -> c_int;
        pub fn vith_cosine(a: *const f32, b: *const f32, n: c_int) -> f32;
        pub fn vith_text_embed(model: *const Model, text: *const c_char, embedding: *mut f32) -> c_int;
        pub fn vith_text_scores(model: *const Model, cosines: *mut f32, n: c_int) -> c_int;
    }
}

/// The kind of an [`Error`]. The kinds are those of `vit_result` in vit.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ErrorKind {
    Argument,
    Io,
    Memory,
    Alignment,
    Magic,
    Version,
    Truncated,
    Corrupt,
    Unsupported,
    SelfTest,
    Abi,
    /// A [`Stop`] was set.
    Stopped,
}

/// An error of the library: its message and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    fn new(result: c_int, message: Option<String>) -> Error {
        let kind = match result {
            c::STOPPED => ErrorKind::Stopped,
            -2 => ErrorKind::Io,
            -3 => ErrorKind::Memory,
            -4 => ErrorKind::Alignment,
            -5 => ErrorKind::Magic,
            -6 => ErrorKind::Version,
            -7 => ErrorKind::Truncated,
            -8 => ErrorKind::Corrupt,
            -9 => ErrorKind::Unsupported,
            -10 => ErrorKind::SelfTest,
            -11 => ErrorKind::Abi,
            _ => ErrorKind::Argument,
        };
        let message = message.unwrap_or_else(|| {
            // SAFETY: a static string for every number.
            unsafe { CStr::from_ptr(c::vith_result_string(result)) }.to_string_lossy().into_owned()
        });
        Error { kind, message }
    }

    fn argument(message: String) -> Error {
        Error { kind: ErrorKind::Argument, message }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

fn check(result: c_int) -> Result<(), Error> {
    match result {
        0 => Ok(()),
        _ => Err(Error::new(result, None)),
    }
}

/// Returns the version of vit.h, such as "2.0.0".
pub fn version() -> &'static str {
    // SAFETY: a static string of digits and dots.
    unsafe { CStr::from_ptr(c::vith_version()) }.to_str().unwrap_or("")
}

/// Returns the cosine of the angle between two embeddings.
///
/// # Panics
/// If their lengths differ.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "embeddings of different models");
    // SAFETY: both have this length.
    unsafe { c::vith_cosine(a.as_ptr(), b.as_ptr(), clamp(a.len())) }
}

/// A class and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The class, for [`Model::label`].
    pub index: usize,
    /// A probability.
    pub score: f32,
}

/// Returns the k best scores, best first. Among equal scores, the lower index comes first.
pub fn top_k(scores: &[f32], k: usize) -> Vec<Prediction> {
    let k = k.min(scores.len());
    let (mut index, mut value) = (vec![0; k], vec![0.0; k]);
    // SAFETY: k elements are written at most.
    let found = unsafe {
        c::vith_top_k(scores.as_ptr(), clamp(scores.len()), clamp(k), index.as_mut_ptr(), value.as_mut_ptr())
    };
    let best = index.into_iter().zip(value).take(found as usize);
    best.map(|(index, score)| Prediction { index: index as usize, score }).collect()
}

/// 64 bytes of a file, aligned for the largest vectors.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

struct OpenModel {
    c: *mut c::Model,
    _bytes: Vec<Line>,                // for a model in memory
    _original: Option<Arc<OpenModel>>, // for a resized model
}

// SAFETY: nothing writes to an open model, and any thread may close the model.
unsafe impl Send for OpenModel {}
unsafe impl Sync for OpenModel {}

impl Drop for OpenModel {
    fn drop(&mut self) {
        // SAFETY: no session is left, because sessions hold an Arc of the model. The bytes are
        // freed later.
        unsafe { c::vith_model_close(self.c) }
    }
}

/// An open `.vit` file. Clones and threads may share it.
#[derive(Clone)]
pub struct Model {
    open: Arc<OpenModel>,
}

impl Model {
    /// Maps a file. The file must not be truncated or changed while it is open: replace model files
    /// by renaming, or read a file and use [`Model::from_bytes`].
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = path.as_ref();
        #[cfg(unix)]
        let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        #[cfg(not(unix))]
        let bytes = match path.to_str() {
            Some(text) => text.as_bytes(),
            None => return Err(Error::argument(format!("{}: the path is not Unicode", path.display()))),
        };
        let name = CString::new(bytes)
            .map_err(|_| Error::argument(format!("{}: the path has a zero byte", path.display())))?;
        Model::open_as(name.as_ptr(), ptr::null(), 0, Vec::new())
    }

    /// Copies a file that is in memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, Error> {
        let mut copy = vec![Line([0; 64]); bytes.len() / 64 + 1];
        // SAFETY: the copy has at least this many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_mut_ptr().cast(), bytes.len()) };
        Model::open_as(ptr::null(), copy.as_ptr().cast(), bytes.len(), copy)
    }

    /// Uses a file in memory, aligned to 16 bytes, without a copy.
    pub fn from_static(bytes: &'static [u8]) -> Result<Model, Error> {
        Model::open_as(ptr::null(), bytes.as_ptr().cast(), bytes.len(), Vec::new())
    }

    fn open_as(path: *const c_char, data: *const c_void, size: usize, bytes: Vec<Line>) -> Result<Model, Error> {
        Model::made(bytes, None, |model, message| {
            // SAFETY: path is a string, or data has the bytes, which do not move while the model is
            // open.
            unsafe { c::vith_model_open(path, data, size, 0, model, message) }
        })
    }

    fn made(
        bytes: Vec<Line>,
        original: Option<Arc<OpenModel>>,
        make: impl FnOnce(*mut *mut c::Model, *mut c_char) -> c_int,
    ) -> Result<Model, Error> {
        let mut model = ptr::null_mut();
        let mut message: [c_char; c::MESSAGE] = [0; c::MESSAGE];
        let result = make(&mut model, message.as_mut_ptr());
        if result != 0 {
            // SAFETY: a failure writes a string.
            let text = unsafe { CStr::from_ptr(message.as_ptr()) };
            return Err(Error::new(result, Some(text.to_string_lossy().into_owned())));
        }
        Ok(Model { open: Arc::new(OpenModel { c: model, _bytes: bytes, _original: original }) })
    }

    /// Returns a model of the same file for another input size in pixels, if the model allows other
    /// sizes.
    pub fn resized(&self, height: usize, width: usize) -> Result<Model, Error> {
        let (height, width) = (clamp(height), clamp(width));
        Model::made(Vec::new(), Some(self.open.clone()), |model, message| {
            // SAFETY: the original stays open as long as the copy.
            unsafe { c::vith_model_resized(self.open.c, height, width, model, message) }
        })
    }

    fn number(&self, which: c_int) -> usize {
        // SAFETY: an open model; no number is negative.
        unsafe { c::vith_number(self.open.c, which) as usize }
    }

    /// Returns the number of classes; 0 for a backbone without a head.
    pub fn num_classes(&self) -> usize {
        self.number(0)
    }

    /// Returns the length of an embedding.
    pub fn embedding_dim(&self) -> usize {
        self.number(1)
    }

    /// Returns the channels, height and width of the input.
    pub fn input(&self) -> (usize, usize, usize) {
        (self.number(2), self.number(3), self.number(4))
    }

    /// Returns the side of a patch in pixels.
    pub fn patch_size(&self) -> usize {
        self.number(5)
    }

    /// Returns the width of a token.
    pub fn embed_dim(&self) -> usize {
        self.number(6)
    }

    /// Returns the number of blocks.
    pub fn depth(&self) -> usize {
        self.number(7)
    }

    /// Returns the number of attention heads.
    pub fn num_heads(&self) -> usize {
        self.number(8)
    }

    /// Returns the number of rows and columns of patches.
    pub fn grid(&self) -> (usize, usize) {
        (self.number(9), self.number(10))
    }

    /// Counts the class token and registers, which precede the patches.
    pub fn num_prefix_tokens(&self) -> usize {
        self.number(11)
    }

    /// Counts all tokens.
    pub fn num_tokens(&self) -> usize {
        self.number(12)
    }

    /// Returns the name of a class, if the file has this name.
    pub fn label(&self, index: usize) -> Option<Cow<'_, str>> {
        // SAFETY: a string of the open file, or NULL.
        unsafe {
            let text = c::vith_label(self.open.c, clamp(index));
            if text.is_null() {
                return None;
            }
            Some(CStr::from_ptr(text).to_string_lossy())
        }
    }

    /// Returns the embedding of a text, if the file has a text encoder. A text that is too long is
    /// cut.
    pub fn embed_text(&self, text: &str) -> Result<Vec<f32>, Error> {
        let text = CString::new(text).map_err(|_| Error::argument("the text has a zero byte".to_string()))?;
        let mut embedding = vec![0.0; self.embedding_dim()];
        // SAFETY: photos and texts have embeddings of this length, which the library checks.
        check(unsafe { c::vith_text_embed(self.open.c, text.as_ptr(), embedding.as_mut_ptr()) })?;
        Ok(embedding)
    }

    /// Turns the cosines of a photo and several texts into probabilities, in place.
    pub fn text_scores(&self, cosines: &mut [f32]) -> Result<(), Error> {
        // SAFETY: this many floats.
        check(unsafe { c::vith_text_scores(self.open.c, cosines.as_mut_ptr(), clamp(cosines.len())) })
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("input", &self.input()).field("num_classes", &self.num_classes()).finish()
    }
}

/// Converts a size. If it does not fit into the result, returns a number that the library refuses
/// as too large.
fn clamp(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// The layout of pixels. The layouts are those of `vit_pixel` in vit.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(i32)]
pub enum Format {
    Rgb8 = 0,
    Rgba8 = 1,
    Gray8 = 2,
    Bgr8 = 3,
    Bgra8 = 4,
    Rgb565 = 5,
    Yuyv = 6,
    Nv12 = 7,
    /// Planes of red, green and blue: floats from 0 to 1 in the machine's order of bytes.
    F32 = 8,
}

/// Borrowed pixels.
#[derive(Clone, Copy)]
pub struct Photo<'a> {
    pixels: &'a [u8],
    shape: [i32; 4],
}

impl<'a> Photo<'a> {
    /// Takes rows of r, g, b bytes.
    pub fn rgb8(pixels: &'a [u8], width: usize, height: usize) -> Result<Photo<'a>, Error> {
        Photo::new(pixels, width, height, 0, Format::Rgb8)
    }

    /// Takes pixels in any layout; `stride` is the number of bytes from row to row, 0 for rows
    /// without gaps.
    pub fn new(
        pixels: &'a [u8],
        width: usize,
        height: usize,
        stride: usize,
        format: Format,
    ) -> Result<Photo<'a>, Error> {
        let shape = [clamp(width), clamp(height), clamp(stride), format as i32];
        // SAFETY: four numbers.
        let needed = unsafe { c::vith_photo_size(shape.as_ptr()) };
        if needed == 0 {
            let what = format!("no photo: {} x {} pixels, stride {}, {:?}", width, height, stride, format);
            return Err(Error::argument(what));
        }
        if (pixels.len() as u64) < needed {
            return Err(Error::argument(format!(
                "a photo of {} x {} pixels, {:?}: expected {} bytes, found {}",
                width, height, format, needed, pixels.len()
            )));
        }
        Ok(Photo { pixels, shape })
    }
}

struct OpenPool(*mut c::Pool);

// SAFETY: sessions of several threads may use a pool at once, and any thread may close the pool.
unsafe impl Send for OpenPool {}
unsafe impl Sync for OpenPool {}

impl Drop for OpenPool {
    fn drop(&mut self) {
        // SAFETY: no session is left, because sessions hold an Arc of the pool.
        unsafe { c::vith_pool_close(self.0) }
    }
}

/// Threads that sessions use in turn. Clones share the threads.
#[derive(Clone)]
pub struct Pool(Arc<OpenPool>);

impl Pool {
    /// Starts threads. `num_threads` includes the thread that calls [`Session::run`]; 0: one per
    /// core.
    pub fn new(num_threads: usize) -> Result<Pool, Error> {
        let mut pool = ptr::null_mut();
        // SAFETY: makes a pool or fails.
        check(unsafe { c::vith_pool_open(clamp(num_threads), &mut pool) })?;
        Ok(Pool(Arc::new(OpenPool(pool))))
    }

    /// Returns the number of threads, including the calling thread.
    pub fn num_threads(&self) -> usize {
        // SAFETY: an open pool.
        unsafe { c::vith_pool_threads((self.0).0) as usize }
    }
}

/// A flag that ends passes early. While the flag is set, its sessions return [`ErrorKind::Stopped`]
/// at the end of the current phase. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicI32>);

impl Stop {
    /// Makes a flag that is not set.
    pub fn new() -> Stop {
        Stop::default()
    }
    /// Sets the flag; any thread may do so.
    pub fn set(&self) {
        self.0.store(1, Ordering::Relaxed)
    }
    /// Clears the flag; sessions then run again.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed)
    }
    /// True if the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// The settings of a session. By default, the session runs on the calling thread.
#[derive(Clone, Default)]
pub struct Options {
    /// The threads; `None`: only the calling thread.
    pub pool: Option<Pool>,
    /// Uses less than half the memory, and is slower; the bits are the same.
    pub low_memory: bool,
    /// Photos computed together; 0: as many as the threads' caches hold.
    pub batch: usize,
    /// Ends passes early, except those of models whose input has each photo's aspect ratio.
    pub stop: Option<Stop>,
}

/// The memory for forward passes. One thread at a time uses a session, because its methods take
/// `&mut self`.
pub struct Session {
    c: *mut c::Session,
    model: Model,
    _options: Options, // the session uses its pool and its flag
}

// SAFETY: a session may move from thread to thread between calls.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the model, the pool and the flag are dropped after this call.
        unsafe { c::vith_session_close(self.c) }
    }
}

impl Session {
    /// Makes a session on the calling thread.
    pub fn new(model: &Model) -> Result<Session, Error> {
        Session::with(model, Options::default())
    }

    /// Makes a session with a pool, a flag or less memory.
    pub fn with(model: &Model, options: Options) -> Result<Session, Error> {
        let pool = options.pool.as_ref().map_or(ptr::null(), |pool| (pool.0).0 as *const c::Pool);
        let stop = options.stop.as_ref().map_or(ptr::null(), |stop| Arc::as_ptr(&stop.0) as *const i32);
        let mut session = ptr::null_mut();
        // SAFETY: the Session keeps everything to which these pointers point.
        check(unsafe {
            let (low, batch) = (options.low_memory as c_int, clamp(options.batch));
            c::vith_session_open(model.open.c, pool, low, batch, stop, &mut session)
        })?;
        Ok(Session { c: session, model: model.clone(), _options: options })
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Computes probabilities and embeddings of photos of any sizes, in the session's memory.
    pub fn run(&mut self, photos: &[Photo<'_>]) -> Result<Answers<'_>, Error> {
        let pixels: Vec<*const u8> = photos.iter().map(|photo| photo.pixels.as_ptr()).collect();
        let shapes: Vec<i32> = photos.iter().flat_map(|photo| photo.shape).collect();
        let (mut scores, mut embedding) = (ptr::null(), ptr::null());
        // SAFETY: Photo::new checked that the pixels are there.
        check(unsafe {
            let (pixels, shapes) = (pixels.as_ptr(), shapes.as_ptr());
            c::vith_run(self.c, clamp(photos.len()), pixels, shapes, &mut scores, &mut embedding)
        })?;
        let classes = if scores.is_null() { 0 } else { self.model.num_classes() };
        let dim = self.model.embedding_dim();
        Ok(Answers { count: photos.len(), scores, embedding, classes, dim, session: PhantomData })
    }

    /// Returns all tokens of a photo after the last norm, `num_tokens` times `embed_dim`.
    pub fn tokens(&mut self, photo: Photo<'_>) -> Result<Vec<f32>, Error> {
        let mut tokens = vec![0.0; self.model.num_tokens() * self.model.embed_dim()];
        // SAFETY: this many floats.
        check(unsafe {
            let (pixels, shape) = (photo.pixels.as_ptr(), photo.shape.as_ptr());
            c::vith_look(self.c, pixels, shape, tokens.as_mut_ptr(), 0, ptr::null_mut())
        })?;
        Ok(tokens)
    }

    /// Returns the attention of a block (-1 is the last): `num_heads` times `num_tokens` times
    /// `num_tokens`.
    pub fn attention(&mut self, photo: Photo<'_>, block: i32) -> Result<Vec<f32>, Error> {
        let tokens = self.model.num_tokens();
        let mut attention = vec![0.0; self.model.num_heads() * tokens * tokens];
        // SAFETY: this many floats.
        check(unsafe {
            let (pixels, shape) = (photo.pixels.as_ptr(), photo.shape.as_ptr());
            c::vith_look(self.c, pixels, shape, ptr::null_mut(), block, attention.as_mut_ptr())
        })?;
        Ok(attention)
    }
}

/// The answers of a run. They borrow the session, whose memory holds them.
pub struct Answers<'a> {
    count: usize,
    scores: *const f32,
    embedding: *const f32,
    classes: usize,
    dim: usize,
    session: PhantomData<&'a mut Session>,
}

impl<'a> Answers<'a> {
    /// Returns the number of photos.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Never true, because a run of no photos is an error.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn row(&self, rows: *const f32, photo: usize, size: usize) -> &[f32] {
        assert!(photo < self.count, "photo {} of {}", photo, self.count);
        if size == 0 {
            return &[];
        }
        // SAFETY: the session has `count` rows and is borrowed.
        unsafe { std::slice::from_raw_parts(rows.add(photo * size), size) }
    }

    /// Returns the probabilities of all classes; the list is empty without a head.
    ///
    /// # Panics
    /// If there is no such photo. `embedding` and `top` panic too.
    pub fn scores(&self, photo: usize) -> &[f32] {
        self.row(self.scores, photo, self.classes)
    }

    /// Returns the embedding, which is not scaled to length 1.
    pub fn embedding(&self, photo: usize) -> &[f32] {
        self.row(self.embedding, photo, self.dim)
    }

    /// Returns the k best classes.
    pub fn top(&self, photo: usize, k: usize) -> Vec<Prediction> {
        top_k(self.scores(photo), k)
    }
}
