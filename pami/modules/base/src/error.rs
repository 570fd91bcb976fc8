//! How errors of the layer below become a library's.

/// `from! { Error: ClientError => Client }`: a `ClientError` becomes an `Error::Client`, which has it.
#[macro_export]
macro_rules! from {
    ($library:ty: $($error:ty => $variant:ident),*) => {$(
        impl From<$error> for $library {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}
