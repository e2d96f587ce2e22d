//! The options in `#[job(…)]`, checked as far as they are known when the program is compiled.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{DeriveInput, Expr, Lit, LitStr, Type};

use crate::duration;

/// Characters in a type or queue name; `windlass` has the same limit.
const NAME_CHARS_MAX: usize = 255;
const PRIORITIES: [(&str, u8); 5] =
    [("critical", 100), ("high", 80), ("normal", 50), ("low", 10), ("bulk", 0)];
const PRESETS: [&str; 3] = ["standard", "fixed", "backoff"];

/// The options of a job, as expressions.
pub(crate) struct Options {
    pub(crate) job_type: LitStr,
    pub(crate) output: TokenStream,
    pub(crate) queue: Option<TokenStream>,
    pub(crate) priority: Option<TokenStream>,
    pub(crate) retry: Option<TokenStream>,
    pub(crate) timeout: Option<TokenStream>,
}

impl Options {
    /// The options of a struct or enum; several attributes count as one.
    pub(crate) fn parse(input: &DeriveInput) -> syn::Result<Options> {
        let (mut job_type, mut output) = (None, None);
        let (mut queue, mut priority, mut retry, mut timeout) = (None, None, None, None);
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|option| {
                let name = option.path.get_ident().map(ToString::to_string).unwrap_or_default();
                match name.as_str() {
                    "type" => once(&option, &mut job_type, name_of(&option)?),
                    "output" => once(&option, &mut output, option.value()?.parse::<Type>()?),
                    "queue" => {
                        let queue_name = name_of(&option)?;
                        once(&option, &mut queue, quote!(#queue_name))
                    }
                    "priority" => once(&option, &mut priority, priority_of(&option.value()?.parse()?)?),
                    "retry" => once(&option, &mut retry, retry_of(&option.value()?.parse()?)?),
                    "timeout" => once(&option, &mut timeout, timeout_of(&option.value()?.parse()?)?),
                    _ => {
                        Err(option
                            .error("unknown option: use type, output, queue, priority, retry or timeout"))
                    }
                }
            })?;
        }
        let missing = "a job needs #[job(type = \"…\")]: the name that is stored with every job";
        Ok(Options {
            job_type: job_type.ok_or_else(|| syn::Error::new_spanned(&input.ident, missing))?,
            output: output.map_or_else(|| quote!(()), |output| quote!(#output)),
            queue,
            priority,
            retry,
            timeout,
        })
    }
}

fn once<T>(option: &ParseNestedMeta<'_>, place: &mut Option<T>, value: T) -> syn::Result<()> {
    if place.replace(value).is_some() {
        return Err(option.error("is given twice"));
    }
    Ok(())
}

/// A name, by the rules of the store.
fn name_of(option: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    let literal: LitStr = option.value()?.parse()?;
    let text = literal.value();
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_inner);
    if !is_name || text.len() > NAME_CHARS_MAX {
        let message = "is not a name: a letter, then letters, digits, `_`, `.`, `:` and `-`, at most 255";
        return Err(syn::Error::new(literal.span(), message));
    }
    Ok(literal)
}

/// The literal, if the expression is one.
fn literal(expression: &Expr) -> Option<&Lit> {
    match expression {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}

fn priority_of(expression: &Expr) -> syn::Result<TokenStream> {
    let refused =
        || syn::Error::new(expression.span(), "is 0 to 100, or critical, high, normal, low or bulk");
    let value: u8 = match literal(expression) {
        Some(Lit::Int(number)) => number.base10_parse().map_err(|_| refused())?,
        Some(Lit::Str(word)) => {
            let found = PRIORITIES.iter().find(|(name, _)| *name == word.value());
            found.ok_or_else(refused)?.1
        }
        _ => return Err(refused()),
    };
    if value > 100 {
        return Err(refused());
    }
    let value = i64::from(value);
    Ok(quote!(::windlass::Priority::new(#value).expect("it was checked when the program was compiled")))
}

fn retry_of(expression: &Expr) -> syn::Result<TokenStream> {
    let Some(Lit::Str(preset)) = literal(expression) else { return Ok(quote!(#expression)) };
    if !PRESETS.contains(&preset.value().as_str()) {
        return Err(syn::Error::new(preset.span(), "is not a preset: standard, fixed or backoff"));
    }
    let preset = syn::Ident::new(&preset.value(), preset.span());
    Ok(quote!(::windlass::RetryPolicy::#preset()))
}

fn timeout_of(expression: &Expr) -> syn::Result<TokenStream> {
    let Some(Lit::Str(text)) = literal(expression) else { return Ok(quote!(#expression)) };
    let millis = duration::millis(&text.value()).ok_or_else(|| {
        syn::Error::new(text.span(), "is not a duration such as 250ms, 30s, 5m, 1h30m or 7d")
    })?;
    Ok(quote!(::core::time::Duration::from_millis(#millis)))
}
