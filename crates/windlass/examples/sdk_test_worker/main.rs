//! The worker for `windlass sdk-test`: runs the programs that docs/sdk-test.md describes, through a server.
//!
//! `windlass sdk-test -- target/debug/examples/sdk_test_worker`

mod program;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use windlass::client::JobBuilder;
use windlass::job::{GroupStrategy, RetryPolicy};
use windlass::{Client, Cx, Job, Worker};

use program::{Flow, Program, Spawning, World};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "sdktest", output = Value)]
struct SdkTest {
    program: Vec<Value>,
}

#[derive(Serialize, Deserialize, Job)]
#[job(type = "sdktest.number", output = i64)]
#[serde(transparent)]
struct Number(i64);

fn path(name: &str) -> PathBuf {
    PathBuf::from(std::env::var("WINDLASS_TEST_FOLDER").unwrap_or_else(|_| ".".to_owned())).join(name)
}

/// Notes are lines of a file, and what happened for the first time has a file.
struct Files;

impl World for Files {
    fn note(&self, line: &str) -> anyhow::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path("effects"))?;
        file.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }

    fn is_first(&self, name: &str) -> bool {
        File::create_new(path(&format!("once-{}", name.replace('/', "_")))).is_ok()
    }

    fn spawn<'a>(
        &'a self,
        cx: &'a Cx,
        name: &'a str,
        children: &'a [Value],
        strategy: GroupStrategy,
    ) -> Spawning<'a> {
        Box::pin(async move {
            let job = |child: &Value| -> anyhow::Result<JobBuilder<SdkTest>> {
                let job: SdkTest = serde_json::from_value(child["payload"].clone())?;
                let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() };
                Ok(JobBuilder::new(&job).retry(retry))
            };
            let jobs = children.iter().map(job).collect::<anyhow::Result<Vec<_>>>()?;
            match name {
                "" => cx.spawn_all(jobs, strategy).await,
                name => cx.spawn_all_named(name, jobs, strategy).await,
            }
        })
    }

    fn follow_up(&self, cx: &Cx, program: &[Value]) -> anyhow::Result<()> {
        cx.submit_on_completion(SdkTest { program: program.to_vec() })?;
        Ok(())
    }
}

async fn sdktest(job: SdkTest, cx: Cx) -> anyhow::Result<Value> {
    let program = Program::new(cx, Files);
    Ok(match program.run(&job.program, "").await? {
        Flow::Done(result) => result,
        Flow::Next => Value::Null,
    })
}

async fn number(Number(number): Number, _cx: Cx) -> anyhow::Result<i64> {
    Ok(number + 1)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Ok(address) = std::env::var("WINDLASS_URL") else {
        println!("usage: windlass sdk-test -- PATH-OF-THIS-PROGRAM");
        return Ok(());
    };
    let client = Client::open(&address).await?;
    let version = std::env::var("WINDLASS_TEST_VERSION").unwrap_or_default();
    let worker = Worker::new(&client).name("sdk-test").version(&version).handle(sdktest).handle(number);
    let mut terminated = signal(SignalKind::terminate())?;
    worker.run_until(terminated.recv()).await?;
    client.close();
    Ok(())
}
