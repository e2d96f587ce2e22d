//! Messages of alerts. A message says what happened when it was submitted; where it goes and in which format is what the
//! alert says when it is delivered. So a corrected URL counts for messages that wait, and no job contains it.

use bytes::Bytes;
use windlass::alert::AlertFormat;
use windlass::alert::message::AlertMessage;
use windlass::context::Cx;
use windlass::job::Failure;
use windlass::store::caller::Caller;
use windlass::store::{Alert, AlertRef, DeliveryKind};

use super::callback::{CallbackWorker, json_headers};
use super::signature::Purpose;

impl CallbackWorker {
    /// Delivers one message; retries have the same message id.
    pub(super) async fn deliver_alert(&self, cx: &Cx) -> anyhow::Result<()> {
        let message: AlertMessage = serde_json::from_slice(&cx.payload().bytes).map_err(|_| {
            Failure::permanent("alert_unreadable", "this message of an alert cannot be read, nor delivered")
        })?;
        let rule = self.alert_of(&message).await?.rule;
        let body = match rule.format {
            AlertFormat::Webhook => message.webhook(),
            AlertFormat::Slack => message.slack(),
        };
        let body = Bytes::from(body.to_string());
        let headers = match rule.format {
            AlertFormat::Webhook => {
                self.signed(cx, Purpose::Alert, &rule.url, message.event(), &body).await?
            }
            // Its secret is the URL.
            AlertFormat::Slack => json_headers(),
        };
        self.send(cx, DeliveryKind::Alert, &rule.url, headers, body).await
    }

    /// The alert of a message as it is now.
    async fn alert_of(&self, message: &AlertMessage) -> anyhow::Result<Alert> {
        let which = AlertRef { tenant: message.tenant.clone(), name: message.alert.clone() };
        let found = self.store.alert(&Caller::system(), which).await?;
        // Without a tenant the only one of that name is found as well.
        let found = found.filter(|alert| alert.tenant == message.tenant);
        found.ok_or_else(|| {
            let problem = format!("alert {} was deleted: no message is sent", message.alert);
            Failure::permanent("alert_deleted", problem).into()
        })
    }
}
