//! Terminals: tmux shows what a person sees on a screen, `script` what a program writes to one.

use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::process::Command;

use crate::binary::binary;
use crate::{PATIENCE, Site};

/// What stands on the screen before the program is started, and must stand there after it.
const BEFORE: &str = "before-the-program";

/// A terminal in tmux with a shell in it; its own tmux server ends with it.
pub struct Terminal {
    socket: String,
}

impl Terminal {
    /// Opens a terminal of this size.
    pub async fn open(width: u16, height: u16) -> Terminal {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let terminal = Terminal { socket: format!("windlass-{}-{number}", std::process::id()) };
        let (width, height) = (width.to_string(), height.to_string());
        terminal
            .tmux(&[
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                &width,
                "-y",
                &height,
                "env",
                "PS1=$ ",
                "sh",
            ])
            .await;
        // What is typed before the shell asks for it stands before its prompt.
        terminal.shows(&["$ "]).await;
        terminal.enter(&format!("echo {BEFORE}")).await;
        terminal.shows(&[&format!("\n{BEFORE}")]).await;
        terminal
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new("tmux");
        command.args(["-u", "-L", &self.socket]).args(arguments);
        command
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::null());
        command
    }

    async fn tmux(&self, arguments: &[&str]) -> String {
        let done = Command::from(self.command(arguments)).output().await.expect("tmux is installed");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Types a command into the shell; when it ends, the shell prints its exit code and the terminal's settings.
    pub async fn run(&self, command: &str) {
        self.enter(&format!("{command}; echo ended=$?; stty -a")).await;
    }

    async fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]).await;
        self.press(&["Enter"]).await;
    }

    /// Presses keys, by tmux's names for them.
    pub async fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).await;
    }

    /// Makes the terminal another size.
    pub async fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.tmux(&["resize-window", "-x", &width, "-y", &height]).await;
    }

    /// What is on the screen, with lines that were broken at its edge made whole.
    pub async fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J"]).await
    }

    /// Waits until all of these are on the screen at once.
    pub async fn shows(&self, parts: &[&str]) -> String {
        let mut text = String::new();
        let shown = async {
            loop {
                text = self.text().await;
                if parts.iter().all(|part| text.contains(part)) {
                    return;
                }
            }
        };
        let is_shown = tokio::time::timeout(PATIENCE, shown).await.is_ok();
        assert!(is_shown, "{parts:?} did not come; there is\n{text}");
        text
    }

    /// Whether a program has the screen to itself.
    pub async fn is_taken_over(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on}"]).await.trim() == "1"
    }

    /// Asks the program in the shell to end.
    pub async fn terminate(&self) {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]).await;
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let program = children.split_whitespace().next().expect("a program runs in the shell");
        assert!(Command::new("kill").args(["-TERM", program]).status().await.unwrap().success());
    }

    /// Expects that the program ended so, and that everything is as it was before it.
    pub async fn is_left_clean(&self, code: i32) {
        let text = self.shows(&[BEFORE, &format!("\nended={code}"), "speed "]).await;
        assert!(!text.contains("-echo ") && !text.contains("-icanon") && !text.contains("-isig"), "{text}");
        assert_eq!(
            self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).await.trim(),
            "0 1",
            "{text}"
        );
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The tmux server of this terminal; it may be gone already.
        let _ = self.command(&["kill-server"]).output();
    }
}

/// Runs a command at a terminal, with these variables and what is typed, and gives all that it wrote and its exit code.
pub async fn at_terminal(site: &Site, line: &str, variables: &[(&str, &str)], typed: &str) -> (String, i32) {
    let input = site.folder.path().join("typed");
    std::fs::write(&input, typed).unwrap();
    let whole = format!("{} {line}", binary().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &whole, "/dev/null"]).env_clear();
    command.env("WINDLASS_URL", &site.url).env("TERM", "xterm").env("PATH", "/usr/bin:/bin");
    command.envs(variables.iter().copied()).stdin(std::fs::File::open(&input).unwrap());
    let ended = command.output().await.unwrap();
    (String::from_utf8_lossy(&ended.stdout).into_owned(), ended.status.code().unwrap())
}
