//! `#[derive(Job)]`: implements the trait `windlass::Job` for a struct. Use it through the crate `windlass`. `#[skip_none]` and
//! `#[derive(Words)]` are for Windlass's own crates.

mod attribute;
mod duration;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Type, parse_quote};

use attribute::Options;

// The examples are compiled with the crate `windlass`, which exports the macro.
#[doc = include_str!("job.md")]
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Leaves fields that say nothing out of a serialized struct: an `Option` that is `None`, and a `Field` of a change that keeps
/// its value. It belongs above the derives.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn skip_none(_options: TokenStream, input: TokenStream) -> TokenStream {
    let mut input = syn::parse_macro_input!(input as DeriveInput);
    let Data::Struct(data) = &mut input.data else {
        return syn::Error::new_spanned(&input.ident, "only structs have fields to skip")
            .to_compile_error()
            .into();
    };
    for field in &mut data.fields {
        let Type::Path(path) = &field.ty else { continue };
        let condition = match path.path.segments.last() {
            Some(last) if last.ident == "Option" => "Option::is_none",
            Some(last) if last.ident == "Field" => "Field::is_kept",
            _ => continue,
        };
        field.attrs.push(parse_quote!(#[serde(skip_serializing_if = #condition)]));
    }
    quote!(#input).into()
}

/// `ALL`, the variants in their order, and `as_str` and `Display`, their names in snake case, for an enum without data.
#[doc(hidden)]
#[proc_macro_derive(Words)]
pub fn derive_words(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    let Data::Enum(data) = &input.data else {
        return syn::Error::new_spanned(&input.ident, "only enums have words").to_compile_error().into();
    };
    let name = &input.ident;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let words = variants.iter().map(|variant| snake_case(&variant.to_string()));
    let count = variants.len();
    quote! {
        impl #name {
            /// All of them, in their order.
            pub const ALL: [#name; #count] = [#(#name::#variants),*];

            /// The text form.
            pub fn as_str(self) -> &'static str {
                match self { #(#name::#variants => #words),* }
            }
        }

        impl ::core::fmt::Display for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    }
    .into()
}

fn snake_case(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

fn implement(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    if matches!(input.data, Data::Union(_)) {
        return Err(syn::Error::new_spanned(&input.ident, "a job is a struct or an enum"));
    }
    let Options { job_type, output, queue, priority, retry, timeout } = Options::parse(input)?;
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
