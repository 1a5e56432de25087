//! Solvers as processes of their own: they get questions as SMT-LIB text and answer each with a word.

use std::{
    collections::HashMap,
    env, fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;

use crate::question::{BETWEEN, SolverTime, Statement, Word};

/// Time for one question, seconds.
pub const QUESTION_S_MAX: u64 = 10;

/// Time for a guess, milliseconds.
const GUESS_MS_MAX: u64 = 1000;

/// Bytes that a solver may answer.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What a kept proof begins with.
const KEPT: &str = "; unsat\n";

/// Solvers that are looked for on the PATH, best first.
const KNOWN: [&str; 3] = ["z3", "cvc5", "bitwuzla"];

/// What came of two windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SolverAnswer {
    /// They are equal.
    Proved {
        /// How long that took.
        took: Duration,
        /// It was known from an earlier run.
        is_cached: bool,
        /// Questions of which each is answered `unsat`.
        proof: String,
    },
    /// They are not, or nobody knows.
    Refused {
        /// What was said instead.
        said: String,
    },
}

/// A solver on this machine.
#[derive(Clone, Debug)]
pub struct Solver {
    name: String,
    program: PathBuf,
    cache: Option<PathBuf>,
    until: Option<Instant>,
    /// What it said of questions of this run. Windows have many of the same shape.
    known: Arc<Mutex<HashMap<Sha256Digest, Word>>>,
}

impl Solver {
    /// The solver of this name, or the best one that is installed.
    #[must_use]
    pub fn find(name: Option<&str>) -> Option<Self> {
        let names = KNOWN.into_iter().filter(|known| name.is_none_or(|name| name == *known));
        names.filter_map(Self::on_path).next()
    }

    /// All that are installed.
    #[must_use]
    pub fn all() -> Vec<Self> {
        KNOWN.into_iter().filter_map(Self::on_path).collect()
    }

    fn on_path(name: &str) -> Option<Self> {
        let path = env::var_os("PATH")?;
        let program = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())?;
        Some(Self { name: name.to_owned(), program, cache: None, until: None, known: Arc::default() })
    }

    /// Keeps what it proves in `folder`, and believes what it finds there.
    #[must_use]
    pub fn with_cache(self, folder: &Path) -> Self {
        Self { cache: Some(folder.to_owned()), ..self }
    }

    /// Proves nothing more from `until` on.
    #[must_use]
    pub fn until(self, until: Instant) -> Self {
        Self { until: Some(until), ..self }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether two windows do the same.
    #[must_use]
    pub fn prove(&self, statement: &Statement) -> SolverAnswer {
        let start = Instant::now();
        let digest = Sha256Digest::of(statement.whole().as_bytes());
        let kept = self.cache.as_ref().map(|folder| folder.join(format!("{}-{digest}", self.name)));
        let read = kept.as_ref().and_then(|kept| fs::read_to_string(kept).ok());
        if let Some(proof) = read.as_ref().and_then(|text| text.strip_prefix(KEPT)) {
            return SolverAnswer::Proved { took: start.elapsed(), is_cached: true, proof: proof.to_owned() };
        }
        match statement.prove(&mut |questions, patience| self.words(questions, patience)) {
            Ok(proof) => {
                if let (Some(kept), Some(folder)) = (kept, &self.cache) {
                    // A cache that cannot be written makes the next run slower, nothing else.
                    let _ = keep(folder, &kept, &proof);
                }
                SolverAnswer::Proved { took: start.elapsed(), is_cached: false, proof }
            }
            Err(said) => SolverAnswer::Refused { said },
        }
    }

    /// Whether it answers every question of `proof` as another solver did; or what it says instead.
    ///
    /// # Errors
    /// It does not.
    pub fn check(&self, proof: &str) -> Result<(), String> {
        let questions: Vec<String> = proof.split(BETWEEN).map(ToOwned::to_owned).collect();
        let words = self.words(&questions, SolverTime::Long)?;
        match words.iter().position(|word| *word != Word::Unsat) {
            Some(at) => {
                Err(format!("question {} of {}: {:?}", at + 1, words.len(), words[at]).to_lowercase())
            }
            None => Ok(()),
        }
    }

    /// What it says of each question.
    fn words(&self, questions: &[String], patience: SolverTime) -> Result<Vec<Word>, String> {
        let digests: Vec<Sha256Digest> =
            questions.iter().map(|question| Sha256Digest::of(question.as_bytes())).collect();
        let known = |digest: &Sha256Digest| {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).get(digest).copied()
        };
        let mut words: Vec<Option<Word>> = digests.iter().map(known).collect();
        let open: Vec<usize> = (0..words.len()).filter(|at| words[*at].is_none()).collect();
        if open.is_empty() {
            return Ok(words.into_iter().flatten().collect());
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err("the budget is used up".to_owned());
        }
        let text: Vec<&str> = open.iter().map(|at| questions[*at].as_str()).collect();
        let said = self.run(&text.join(BETWEEN), patience).map_err(|error| error.to_string())?;
        let mut lines = said.lines();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for at in open {
            let word = match lines.next().map(str::trim) {
                Some("unsat") => Word::Unsat,
                Some("sat") => Word::Sat,
                Some("unknown" | "timeout") | None => Word::Unknown,
                Some(other) => return Err(other.chars().take(200).collect()),
            };
            words[at] = Some(word);
            if word != Word::Unknown {
                known.insert(digests[at], word);
            }
        }
        Ok(words.into_iter().flatten().collect())
    }

    /// What it writes for `questions`.
    fn run(&self, questions: &str, patience: SolverTime) -> std::io::Result<String> {
        let limit_ms = match patience {
            SolverTime::Short => GUESS_MS_MAX,
            SolverTime::Long => QUESTION_S_MAX * 1000,
        };
        let words: Vec<String> = match self.name.as_str() {
            "z3" => vec!["-in".into(), format!("-t:{limit_ms}")],
            "cvc5" => {
                vec![
                    "--lang=smt2".into(),
                    "--incremental".into(),
                    format!("--tlimit-per={limit_ms}"),
                    "-".into(),
                ]
            }
            _ => vec!["--time-limit-per".into(), limit_ms.to_string()],
        };
        let mut child = Command::new(&self.program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut said = String::new();
        // It answers while it reads.
        let written = thread::scope(|scope| {
            let writes =
                scope.spawn(|| input.map_or(Ok(()), |mut input| input.write_all(questions.as_bytes())));
            let read = output.map_or(Ok(0), |output| output.take(ANSWER_BYTES_MAX).read_to_string(&mut said));
            let written = writes.join().unwrap_or(Ok(()));
            read.and(written)
        });
        child.wait()?;
        written.map(|()| said)
    }
}

/// Writes a proof whole or not at all.
fn keep(folder: &Path, kept: &Path, proof: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let fresh = kept.with_extension(format!("{}", std::process::id()));
    fs::write(&fresh, format!("{KEPT}{proof}"))?;
    fs::rename(&fresh, kept)
}
