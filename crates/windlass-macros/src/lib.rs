//! `#[derive(Job)]`: implements the trait `windlass::Job` for a struct. Use it through the crate `windlass`.

mod attribute;
mod duration;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

use attribute::Options;

// The examples are compiled with the crate `windlass`, which exports the macro.
#[doc = include_str!("job.md")]
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
