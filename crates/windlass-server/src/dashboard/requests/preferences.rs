//! What a visitor chose for its own browser: the columns of the job list, saved views of it, and a time zone. It is kept in
//! cookies, so nothing is stored about visitors. It is bounded, and checked whenever it is read.

use axum::http::{HeaderMap, HeaderValue};
use windlass::schedule::Zone;

use super::form::Fields;
use super::session::read_cookie;
use crate::dashboard::pages::jobs::job_columns::Columns;
use crate::dashboard::pages::limits;

const COLUMNS: &str = "windlass-columns";
const VIEWS: &str = "windlass-views";
/// Also set by the page's script, which knows the browser's time zone.
const ZONE: &str = "windlass-zone";

/// A saved view of the job list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) struct View {
    pub(in crate::dashboard) name: String,
    /// Filter and order, as in the URL of the list.
    pub(in crate::dashboard) query: String,
    pub(in crate::dashboard) columns: Columns,
}

/// The choices of a visitor.
#[derive(Debug, Clone, Default)]
pub(in crate::dashboard) struct Preferences {
    pub(in crate::dashboard) columns: Columns,
    pub(in crate::dashboard) views: Vec<View>,
    /// UTC if none is chosen.
    pub(in crate::dashboard) zone: Option<Zone>,
}

impl Preferences {
    /// Reads the cookies of a request. What cannot be read counts as not chosen.
    pub(in crate::dashboard) fn from_headers(headers: &HeaderMap) -> Preferences {
        let columns = read_cookie(headers, COLUMNS).map(|text| first(text, "c")).unwrap_or_default();
        let zone = read_cookie(headers, ZONE).map(|text| first(&format!("z={text}"), "z"));
        Preferences {
            columns: Columns::parse(&columns),
            views: read_cookie(headers, VIEWS).map(views).unwrap_or_default(),
            zone: zone.and_then(|name| name.parse::<Zone>().ok()).filter(|zone| zone.as_str() != "UTC"),
        }
    }

    /// Adds or replaces a view; false if there is no room for it.
    pub(in crate::dashboard) fn save(&mut self, view: View) -> bool {
        self.views.retain(|known| known.name != view.name);
        self.views.push(view);
        self.views.sort_by(|a, b| a.name.cmp(&b.name));
        self.views.len() <= limits::VIEWS_MAX && encode_views(&self.views).len() <= limits::VIEWS_BYTES_MAX
    }
}

/// The first field of this name in an encoded text.
fn first(text: &str, name: &str) -> String {
    Fields::parse(text.as_bytes()).text(name).unwrap_or_default()
}

fn views(text: &str) -> Vec<View> {
    let fields = Fields::parse(text.get(..limits::VIEWS_BYTES_MAX).unwrap_or(text).as_bytes());
    let read = fields.pairs().filter_map(|(name, value)| {
        let (columns, query) = value.split_once(' ')?;
        Some(View { name: name.to_owned(), query: query.to_owned(), columns: Columns::parse(columns) })
    });
    read.take(limits::VIEWS_MAX).collect()
}

fn encode_views(views: &[View]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for view in views {
        text.append_pair(&view.name, &format!("{} {}", view.columns, view.query));
    }
    text.finish()
}

/// The header that keeps the columns; the default ones are removed from the browser.
pub(in crate::dashboard) fn columns_cookie(columns: &Columns, is_secure: bool) -> HeaderValue {
    let is_default = *columns == Columns::default();
    let text =
        form_urlencoded::Serializer::new(String::new()).append_pair("c", &columns.to_string()).finish();
    cookie(COLUMNS, if is_default { "" } else { &text }, is_secure)
}

/// The header that keeps the views.
pub(in crate::dashboard) fn views_cookie(views: &[View], is_secure: bool) -> HeaderValue {
    cookie(VIEWS, &encode_views(views), is_secure)
}

/// The header that keeps the time zone; none for UTC.
pub(in crate::dashboard) fn zone_cookie(zone: Option<&Zone>, is_secure: bool) -> HeaderValue {
    let name = zone.map(|zone| form_urlencoded::byte_serialize(zone.as_str().as_bytes()).collect::<String>());
    cookie(ZONE, &name.unwrap_or_default(), is_secure)
}

fn cookie(name: &str, value: &str, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let age = if value.is_empty() { 0 } else { limits::PREFERENCES_KEPT.as_secs() };
    let text = format!("{name}={value}; Path=/; Max-Age={age}; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("an encoded text is a header value")
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    fn asked(cookies: &str) -> Preferences {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(cookies).unwrap());
        Preferences::from_headers(&headers)
    }

    /// What a browser sends back of a header.
    fn sent(header: &HeaderValue) -> String {
        header.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    fn view(name: &str) -> View {
        let query = "state=failed&tag=customer%3A7&order=oldest".to_owned();
        View { name: name.to_owned(), query, columns: Columns::parse("payload,tag:customer") }
    }

    #[test]
    fn choices_are_read_back_from_their_cookies() {
        let columns = Columns::parse("queue,payload,tag:a b&c=d,tags");
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        let mut kept = Preferences::default();
        assert!(kept.save(view("failed; or \"not\"")) && kept.save(view("grün")));
        let cookies = [
            sent(&columns_cookie(&columns, true)),
            sent(&views_cookie(&kept.views, false)),
            sent(&zone_cookie(Some(&zone), false)),
        ];
        let found = asked(&cookies.join("; "));
        assert_eq!((found.columns, found.views), (columns, kept.views));
        assert_eq!(found.zone.map(|zone| zone.as_str().to_owned()).as_deref(), Some("Europe/Berlin"));
    }

    #[test]
    fn what_cannot_be_read_counts_as_not_chosen() {
        let found =
            asked("windlass-columns=c=nonsense%2C%00; windlass-views=%%%; windlass-zone=Mars%2FOlympus");
        assert_eq!((found.columns, found.views.len(), found.zone.is_none()), (Columns::default(), 0, true));
        assert!(columns_cookie(&Columns::default(), true).to_str().unwrap().contains("Max-Age=0"));
    }

    #[test]
    fn the_number_of_views_is_bounded() {
        let mut kept = Preferences::default();
        for number in 0..limits::VIEWS_MAX {
            assert!(kept.save(view(&format!("v{number}"))));
        }
        assert!(kept.clone().save(view("v0")), "one that is replaced takes no room");
        assert!(!kept.save(view("more")));
        let long = View { query: "x".repeat(limits::VIEWS_BYTES_MAX), ..view("long") };
        assert!(!Preferences::default().save(long));
    }
}
