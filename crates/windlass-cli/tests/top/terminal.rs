//! A terminal in tmux, with its own tmux server that ends with the test.

use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::process::Command;

use crate::program::PATIENCE;

/// What stands on the screen before the program is started, and must stand there after it.
const BEFORE: &str = "before-the-program";

/// A terminal with a shell in it.
pub(crate) struct Terminal {
    socket: String,
}

impl Terminal {
    /// Opens a terminal of this size.
    pub(crate) async fn open(width: u16, height: u16) -> Terminal {
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
    pub(crate) async fn run(&self, command: &str) {
        self.enter(&format!("{command}; echo ended=$?; stty -a")).await;
    }

    async fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]).await;
        self.press(&["Enter"]).await;
    }

    /// Presses keys, by tmux's names for them.
    pub(crate) async fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).await;
    }

    /// Makes the terminal another size.
    pub(crate) async fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.tmux(&["resize-window", "-x", &width, "-y", &height]).await;
    }

    /// What is on the screen, with lines that were broken at its edge made whole.
    pub(crate) async fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J"]).await
    }

    /// Waits until all of these are on the screen at once.
    pub(crate) async fn shows(&self, parts: &[&str]) -> String {
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
    pub(crate) async fn is_taken_over(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on}"]).await.trim() == "1"
    }

    /// Tells the program in the shell to end.
    pub(crate) async fn terminate(&self) {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]).await;
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let program = children.split_whitespace().next().expect("a program runs in the shell");
        assert!(Command::new("kill").args(["-TERM", program]).status().await.unwrap().success());
    }

    /// Expects that the program ended so, and that everything is as it was before it.
    pub(crate) async fn is_left_clean(&self, code: i32) {
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
