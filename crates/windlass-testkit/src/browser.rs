//! A headless Chromium, driven over its debugging pipe: open a page, wait for something in it, click, type, look. Nothing
//! here sleeps: a wait asks the page itself, which answers when what was waited for has come.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::PATIENCE;

/// One browser with its own profile: its own cookies, its own windows.
pub struct Browser {
    _child: Child,
    _profile: tempfile::TempDir,
    pipe: Mutex<Pipe>,
    number: AtomicU64,
}

struct Pipe {
    write: ChildStdin,
    read: BufReader<ChildStdout>,
    /// Events that came while an answer was awaited: (session, method, parameters).
    events: VecDeque<(String, String, Value)>,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Panics
    /// When there is none: `./check` says how to get it.
    pub fn start() -> Browser {
        let profile = crate::store_folder();
        // The browser reads commands from file 3 and answers on file 4; a shell can give it those without unsafe code.
        let script = r#"exec "$@" 3<&0 4>&1 1>/dev/null 2>/dev/null"#;
        let mut command = Command::new("sh");
        command.args([
            "-c",
            script,
            "sh",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
        ]);
        command.args(["--no-first-run", "--disable-background-networking", "--disable-component-update"]);
        // It paints nothing: a process for that would only take a fifth of what a start costs.
        command.args([
            "--in-process-gpu",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            "about:blank",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().expect("the tests of the dashboard need Chromium: apt-get install chromium");
        let write = child.stdin.take().expect("a pipe to the browser");
        let read = BufReader::new(child.stdout.take().expect("a pipe from the browser"));
        let pipe = Mutex::new(Pipe { write, read, events: VecDeque::new() });
        Browser { _child: child, _profile: profile, pipe, number: AtomicU64::new(1) }
    }

    /// Sends a command and awaits its answer.
    async fn send(&self, session: &str, method: &str, parameters: Value) -> Value {
        let answer = self.exchange(session, method, &parameters).await;
        answer.unwrap_or_else(|error| panic!("{method} {parameters}: {error}"))
    }

    /// The same, for a command that may fail because its page is gone.
    async fn exchange(&self, session: &str, method: &str, parameters: &Value) -> Result<Value, Value> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if !session.is_empty() {
            message["sessionId"] = json!(session);
        }
        let mut pipe = self.pipe.lock().await;
        let mut bytes = serde_json::to_vec(&message).expect("a command is plain JSON");
        bytes.push(0);
        let gone = "the browser is there; is Chromium installed?";
        pipe.write.write_all(&bytes).await.expect(gone);
        loop {
            let mut line = Vec::new();
            let length = pipe.read.read_until(0, &mut line).await.expect(gone);
            assert!(length > 0, "{gone}");
            let mut answer: Value =
                serde_json::from_slice(&line[..length - 1]).expect("the browser speaks JSON");
            if answer["id"] == json!(number) {
                let error = answer["error"].take();
                return if error.is_null() { Ok(answer["result"].take()) } else { Err(error) };
            }
            if let Some(event) = answer["method"].as_str() {
                let of = answer["sessionId"].as_str().unwrap_or_default().to_owned();
                pipe.events.push_back((of, event.to_owned(), answer["params"].clone()));
            }
        }
    }

    /// A new window.
    pub async fn window(&self) -> Window<'_> {
        let target = self.send("", "Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session =
            self.send("", "Target.attachToTarget", attach).await["sessionId"].as_str().unwrap().to_owned();
        let window = Window { browser: self, session };
        window.send("Page.enable", json!({})).await;
        window.send("Runtime.enable", json!({})).await;
        window.send("Log.enable", json!({})).await;
        window.send("Network.enable", json!({})).await;
        window
    }

    /// A new window with this address.
    pub async fn open(&self, address: &str) -> Window<'_> {
        let window = self.window().await;
        window.open(address).await;
        window
    }
}

/// One window of a browser.
pub struct Window<'a> {
    browser: &'a Browser,
    session: String,
}

impl Window<'_> {
    pub async fn send(&self, method: &str, parameters: Value) -> Value {
        self.browser.send(&self.session, method, parameters).await
    }

    /// Opens an address and waits until it is loaded and its script has run.
    pub async fn open(&self, address: &str) {
        // The page that is left may answer for a moment longer: it is marked, and its answers do not count.
        self.eval("document.isLeft = true").await;
        self.send("Page.navigate", json!({"url": address})).await;
        self.until("!document.isLeft && document.readyState === 'complete'").await;
    }

    /// Loads the page again.
    pub async fn reload(&self) {
        self.eval("document.isLeft = true").await;
        self.send("Page.reload", json!({})).await;
        self.until("!document.isLeft && document.readyState === 'complete'").await;
    }

    /// The value of an expression; promises are awaited.
    pub async fn eval(&self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.send("Runtime.evaluate", ask).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub async fn text(&self, expression: &str) -> String {
        self.eval(expression).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression holds, looking whenever the page changes; a page that is being replaced is asked again.
    pub async fn until(&self, condition: &str) {
        let expression = format!(
            "new Promise((done) => {{ setTimeout(() => done(location.href + '\\n' + document.body.innerText.slice(0, 2500)), 30000); const holds = () => {{ try {{ return !!({condition}); }} catch {{ return false; }} }}; \
             const look = () => {{ if (holds()) {{ watch.disconnect(); clearInterval(timer); done(true); }} }}; \
             const watch = new MutationObserver(look); watch.observe(document, {{subtree: true, childList: true, \
             attributes: true, characterData: true}}); const timer = setInterval(look, 50); look(); }})"
        );
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let wait = async {
            loop {
                // The page may be left while it is asked: its promise then goes with it.
                let answer = self.browser.exchange(&self.session, "Runtime.evaluate", &ask).await;
                let value = answer.map(|mut answer| answer["result"]["value"].take()).unwrap_or_default();
                if value == json!(true) {
                    return;
                }
                assert!(
                    !value.is_string(),
                    "`{condition}` did not come true on {}",
                    value.as_str().unwrap_or_default()
                );
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "`{condition}` did not come true");
    }

    /// Clicks what a selector finds first, as a person would. It is found and clicked in one go: a page that is refreshed
    /// in between would have something else there.
    pub async fn click(&self, selector: &str) {
        self.with(selector, "if (found.disabled) return false; found.click(); return true").await;
    }

    /// Waits for what a selector finds first and does something with it, `found`, once it says that it is done.
    async fn with(&self, selector: &str, action: &str) {
        let find = format!("const found = document.querySelector({selector:?}); if (!found) return false;");
        self.until(&format!("(() => {{ {find} {action}; }})()")).await;
    }

    /// Presses keys one after the other.
    pub async fn press(&self, keys: &[&str]) {
        for key in keys {
            for kind in ["keyDown", "keyUp"] {
                let text = if kind == "keyDown" && key.chars().count() == 1 { *key } else { "" };
                self.send("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "text": text})).await;
            }
        }
    }

    /// Puts text into a field.
    pub async fn fill(&self, selector: &str, text: &str) {
        self.with(selector, &format!("found.value = {}; return true", json!(text))).await;
    }

    /// Opens what is folded away.
    pub async fn unfold(&self, selector: &str) {
        self.with(selector, "found.open = true; return true").await;
    }

    /// What went wrong on this window's pages so far: dialogs, exceptions, refused scripts and styles.
    pub async fn errors(&self) -> Vec<String> {
        let mut pipe = self.browser.pipe.lock().await;
        let mut found = Vec::new();
        for (session, method, parameters) in pipe.events.drain(..) {
            let is_trouble = match method.as_str() {
                "Page.javascriptDialogOpening" | "Runtime.exceptionThrown" | "Audits.issueAdded" => true,
                "Log.entryAdded" => {
                    let entry = &parameters["entry"];
                    entry["level"] == json!("error") && entry["source"] != json!("network")
                }
                _ => false,
            };
            if is_trouble && session == self.session {
                found.push(format!("{method}: {parameters}"));
            }
        }
        found
    }
}
