//! Every file in `bad/` is refused with exactly the pictures in the `.txt` beside it.
//!
//! `WEIR_BLESS=1 cargo test -p weir-config --test pictures` writes them anew; read the difference before committing.

use std::path::Path;

use weir_config::Config;

#[test]
fn bad_files_are_refused_with_these_pictures() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 12, "the bad files are in {directory:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let errors = Config::from_str("weir.toml", &text).expect_err(&file.display().to_string());
        for error in errors.errors() {
            assert!(error.hint.is_some(), "nothing is suggested for {error}");
        }
        let picture = format!("{errors}\n");
        let expected = file.with_extension("txt");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&expected, &picture).unwrap();
        }
        let expected = std::fs::read_to_string(expected).unwrap_or_default();
        assert_eq!(picture, expected, "{}", file.display());
    }
}
