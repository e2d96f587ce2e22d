//! `#[derive(Job)]`: implements the trait `windlass::Job` for a struct. Use it through the crate `windlass`.

mod attribute;
mod duration;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

use attribute::Options;

/// Implements [`Job`](https://docs.rs/windlass/latest/windlass/trait.Job.html) for a type of work.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, RetryPolicy};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(type = "email.send", output = String, queue = "mail", priority = 80, timeout = "30s")]
/// #[job(retry = RetryPolicy::backoff().attempts(5))]
/// struct SendEmail {
///     to: String,
/// }
///
/// assert_eq!(SendEmail::TYPE, "email.send");
/// assert_eq!(SendEmail::defaults().queue, Some("mail"));
/// ```
///
/// | option | meaning | if left out |
/// |---|---|---|
/// | `type = "email.send"` | the name that is stored with every job | required: renaming the struct must not change it |
/// | `output = String` | what the handler returns | `()` |
/// | `queue = "mail"` | the queue | `default` |
/// | `priority = 80` | 0 to 100, or one of `"critical"`, `"high"`, `"normal"`, `"low"`, `"bulk"` | follows the store's settings |
/// | `retry = "fixed"` | `"standard"`, `"fixed"`, `"backoff"`, or an expression of type `RetryPolicy` | follows the store's settings |
/// | `timeout = "1m30s"` | longest duration of one attempt, or an expression of type `Duration` | follows the store's settings |
///
/// A submission may override each of them. Names, priorities and durations are checked when the program is compiled:
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, windlass::Job)]
/// #[job(type = "email send")] // a name has no spaces
/// struct SendEmail;
/// ```
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, windlass::Job)]
/// struct SendEmail; // no type
/// ```
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, windlass::Job)]
/// #[job(type = "email.send", priority = 101)]
/// struct SendEmail;
/// ```
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn implement(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    if matches!(input.data, Data::Union(_)) {
        return Err(syn::Error::new_spanned(&input.ident, "a job is a struct or an enum"));
    }
    let Options { job_type, output, queue, priority, retry, timeout } = Options::of(input)?;
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let set = [("queue", queue), ("priority", priority), ("retry", retry), ("timeout", timeout)];
    let set = set.into_iter().filter_map(|(field, value)| {
        let (field, value) = (syn::Ident::new(field, proc_macro2::Span::call_site()), value?);
        Some(quote!(defaults.#field = ::core::option::Option::Some(#value);))
    });
    Ok(quote! {
        impl #generics ::windlass::Job for #name #arguments #bounds {
            const TYPE: &'static str = #job_type;
            type Output = #output;

            #[allow(unused_mut)]
            fn defaults() -> ::windlass::client::JobDefaults {
                let mut defaults = ::windlass::client::JobDefaults::default();
                #(#set)*
                defaults
            }
        }
    })
}
