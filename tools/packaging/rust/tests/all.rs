//! Uses the small model of clothes in the crate: 28 x 28 grey pixels, ten classes.
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vit_h::{cosine, top_k, ErrorKind, Format, Model, Options, Photo, Pool, Session, Stop};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fashion-vit.vit");

fn pixels() -> Vec<u8> {
    (0..64 * 48 * 3).map(|i| (i * i / 7 % 256) as u8).collect()
}

fn embedding(session: &mut Session) -> Vec<u32> {
    let pixels = pixels();
    let answers = session.run(&[Photo::rgb8(&pixels, 64, 48).unwrap()]).unwrap();
    answers.embedding(0).iter().map(|x| x.to_bits()).collect()
}

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}

#[test]
fn types_cross_threads() {
    is_send::<Model>();
    is_sync::<Model>();
    is_send::<Pool>();
    is_sync::<Pool>();
    is_send::<Stop>();
    is_sync::<Stop>();
    is_send::<Session>();
    is_send::<vit_h::Error>();
    is_sync::<vit_h::Error>();
}

#[test]
fn a_model_has_numbers_and_labels() {
    let model = Model::open(MODEL).unwrap();
    assert_eq!(model.num_classes(), 10);
    assert_eq!(model.input(), (1, 28, 28));
    assert_eq!(model.grid().0 * model.patch_size(), 28);
    assert_eq!(model.num_tokens(), model.grid().0 * model.grid().1 + model.num_prefix_tokens());
    assert!(model.depth() > 0 && model.embedding_dim() == model.embed_dim());
    assert!(model.label(9).unwrap().len() > 2);
    assert_eq!(model.label(10), None);
    assert_eq!(model.label(usize::MAX), None);
    assert!(format!("{:?}", model).contains("28"));
    assert_eq!(vit_h::version().split('.').count(), 3);
}

#[test]
fn errors_have_kinds_and_messages() {
    let error = Model::open("no/such.vit").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().starts_with("no/such.vit: "), "{}", error);
    assert_eq!(Model::open("a\0b").unwrap_err().kind(), ErrorKind::Argument);
    let bytes = std::fs::read(MODEL).unwrap();
    assert_eq!(Model::from_bytes(&bytes[..1000]).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(Model::from_bytes(&[7; 1000]).unwrap_err().kind(), ErrorKind::Magic);
    assert!(Model::from_bytes(&[]).is_err());
    let model = Model::open(MODEL).unwrap();
    assert_eq!(model.resized(56, 56).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(model.embed_text("words").unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(model.text_scores(&mut [0.5]).is_err());
    assert_eq!(Pool::new(usize::MAX).err().unwrap().kind(), ErrorKind::Argument);
    let mut session = Session::new(&model).unwrap();
    assert_eq!(session.run(&[]).err().unwrap().kind(), ErrorKind::Argument);
    let options = Options { batch: usize::MAX, ..Options::default() };
    assert_eq!(Session::with(&model, options).err().unwrap().kind(), ErrorKind::Argument);
    let pixels = pixels();
    let photo = Photo::rgb8(&pixels, 64, 48).unwrap();
    assert!(session.attention(photo, 1000).is_err());
}

#[test]
fn photos_have_enough_pixels() {
    let all = vec![0; 1 << 16];
    let sizes = [
        (5, 3, 0, Format::Rgb8, 45),
        (5, 3, 20, Format::Rgb8, 55),
        (5, 3, 0, Format::Rgba8, 60),
        (5, 3, 0, Format::Gray8, 15),
        (5, 3, 0, Format::Bgr8, 45),
        (5, 3, 0, Format::Bgra8, 60),
        (5, 3, 0, Format::Rgb565, 30),
        (5, 3, 0, Format::Yuyv, 36),
        (5, 3, 0, Format::Nv12, 30),
        (5, 3, 0, Format::F32, 180),
        (5, 3, 32, Format::F32, 276),
    ];
    let mut session = Session::new(&Model::open(MODEL).unwrap()).unwrap();
    for (width, height, stride, format, size) in sizes {
        let photo = Photo::new(&all[..size], width, height, stride, format).unwrap();
        session.run(&[photo]).unwrap();
        let error = Photo::new(&all[..size - 1], width, height, stride, format).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains(&format!("expected {} bytes, found {}", size, size - 1)));
    }
    for (width, height, stride) in [(0, 3, 0), (5, 0, 0), (5, 3, 14), (1 << 21, 1, 0), (usize::MAX, 1, 0), (5, 3, usize::MAX)] {
        assert!(Photo::new(&all, width, height, stride, Format::Rgb8).is_err());
    }
}

#[test]
fn every_way_to_run_gives_the_same_bits() {
    let model = Model::open(MODEL).unwrap();
    let expected = embedding(&mut Session::new(&model).unwrap());
    let pool = Pool::new(3).unwrap();
    assert_eq!(pool.num_threads(), 3);
    let pooled = Options { pool: Some(pool), ..Options::default() };
    let mut session = Session::with(&model, pooled.clone()).unwrap();
    assert_eq!(embedding(&mut session), expected);
    let small = Options { low_memory: true, ..pooled };
    assert_eq!(embedding(&mut Session::with(&model, small).unwrap()), expected);

    let bytes = std::fs::read(MODEL).unwrap();
    for mut session in [Session::new(&Model::from_bytes(&bytes).unwrap()).unwrap(), session] {
        drop(bytes.clone());
        let thread = std::thread::spawn(move || embedding(&mut session));
        assert_eq!(thread.join().unwrap(), expected); // the session owns its model
    }

    let pixels = pixels();
    let photo = Photo::rgb8(&pixels, 64, 48).unwrap();
    let mut session = Session::new(&model).unwrap();
    let answers = session.run(&[photo; 5]).unwrap();
    assert_eq!((answers.len(), answers.is_empty()), (5, false));
    for i in 0..5 {
        assert_eq!(answers.embedding(i).iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected);
        assert_eq!(answers.scores(i).len(), 10);
        assert!((answers.scores(i).iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let top = answers.top(i, 99);
        assert_eq!(top.len(), 10);
        assert!(top.windows(2).all(|pair| pair[0].score >= pair[1].score));
        assert_eq!(top[0].score, answers.scores(i)[top[0].index]);
    }
    assert!(cosine(answers.embedding(0), answers.embedding(4)) > 0.99999);
    assert!(top_k(&[], 3).is_empty());
}

#[test]
#[should_panic(expected = "photo 1 of 1")]
fn a_photo_that_was_not_run_panics() {
    let model = Model::open(MODEL).unwrap();
    let pixels = pixels();
    Session::new(&model).unwrap().run(&[Photo::rgb8(&pixels, 64, 48).unwrap()]).unwrap().scores(1);
}

#[test]
fn tokens_and_attention() {
    let model = Model::open(MODEL).unwrap();
    let pixels = pixels();
    let photo = Photo::rgb8(&pixels, 64, 48).unwrap();
    let mut session = Session::new(&model).unwrap();
    let tokens = session.tokens(photo).unwrap();
    assert_eq!(tokens.len(), model.num_tokens() * model.embed_dim());
    assert!(tokens.iter().any(|x| *x != 0.0));
    let attention = session.attention(photo, -1).unwrap();
    for row in attention.chunks(model.num_tokens()) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4);
    }
}

#[test]
fn a_flag_stops_passes() {
    let model = Model::open(MODEL).unwrap();
    let stop = Stop::new();
    let mut session = Session::with(&model, Options { stop: Some(stop.clone()), ..Options::default() }).unwrap();
    let expected = embedding(&mut session);
    stop.set();
    assert!(stop.is_set());
    let pixels = pixels();
    let photo = Photo::rgb8(&pixels, 64, 48).unwrap();
    assert_eq!(session.run(&[photo]).err().unwrap().kind(), ErrorKind::Stopped);
    assert_eq!(session.tokens(photo).unwrap_err().kind(), ErrorKind::Stopped);
    stop.clear();
    assert_eq!(embedding(&mut session), expected);

    // Another thread sets the flag in the middle of a run of thousands of photos.
    let (send, receive) = mpsc::channel();
    let other = stop.clone();
    let thread = std::thread::spawn(move || {
        receive.recv().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        other.set();
    });
    let many = vec![photo; 20000];
    send.send(()).unwrap();
    let begin = Instant::now();
    assert_eq!(session.run(&many).err().unwrap().kind(), ErrorKind::Stopped);
    assert!(begin.elapsed() >= Duration::from_millis(20));
    thread.join().unwrap();
    stop.clear();
    assert_eq!(embedding(&mut session), expected);
}
