// rust.rs - what packages/rust.sh compiles against the crate: MODEL PHOTO.ppm EMBEDDING. Prints the
// class and its score, and writes the embedding's floats, which are vit-embed's.
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vit_h::{ErrorKind, Model, Options, Photo, Pool, Session, Stop};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let start = Instant::now();
    let model = Model::open(&words[1])?;
    let file = std::fs::read(&words[2])?;
    let photo = Photo::rgb8(&file[file.len() - 128 * 128 * 3..], 128, 128)?;
    let mut session = Session::new(&model)?;
    let answers = session.run(&[photo, photo])?;
    let took = start.elapsed();
    let best = answers.top(1, 1)[0];
    println!("{} {:.4}", model.label(best.index).unwrap_or_default(), best.score);
    let bytes: Vec<u8> = answers.embedding(1).iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(&words[3], &bytes)?;

    let pool = Pool::new(2)?;
    let stop = Stop::new();
    let options = Options { pool: Some(pool), stop: Some(stop.clone()), ..Options::default() };
    let mut pooled = Session::with(&model, options)?;
    assert_eq!(pooled.run(&[photo])?.embedding(0), answers.embedding(0));
    let (send, receive) = mpsc::channel();
    let other = std::thread::spawn(move || {
        receive.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        stop.set();
    });
    send.send(())?;
    assert_eq!(pooled.run(&vec![photo; 10000]).err().unwrap().kind(), ErrorKind::Stopped);
    other.join().unwrap();

    // Words, which the bundled model knows.
    let text = model.embed_text("a cat")?;
    println!("{:.4}", vit_h::cosine(&text, answers.embedding(0)));
    let begin = Instant::now();
    for _ in 0..20 {
        session.run(&[photo])?;
    }
    eprintln!("{:.2} ms to the first two answers, {:.2} ms for a photo", 1e3 * took.as_secs_f64(), 50.0 * begin.elapsed().as_secs_f64());
    Ok(())
}
