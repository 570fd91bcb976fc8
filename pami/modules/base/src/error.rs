//! How a library tells of what went wrong below it, and of its own.

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

/// A library's errors: those of the layers `below`, which speak for themselves, those `told` so that it makes one by one, and
/// its `own`, with what they say.
#[macro_export]
macro_rules! errors {
    ($(#[$what:meta])* pub enum $error:ident:
     below { $($(#[$doc:meta])* $below:ident($of:ty),)* }
     told { $($(#[$why:meta])* $told:ident($by:ty),)* }
     own { $($own:ident $(($($item:ident: $type:ty),*))? $({$($field:ident: $kind:ty),*})? => $says:tt,)* }) => {
        $(#[$what])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "what a variant says tells of its fields")]
        pub enum $error {
            $($(#[$doc])* $below($of),)*
            $($(#[$why])* $told($by),)*
            $(#[doc = $says] $own $(($($type),*))? $({ $($field: $kind),* })?,)*
        }

        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$below(error) => core::fmt::Display::fmt(error, f),)*
                    $(Self::$told(error) => core::fmt::Display::fmt(error, f),)*
                    $(Self::$own $(($($item),*))? $({ $($field),* })? => write!(f, $says),)*
                }
            }
        }

        impl core::error::Error for $error {}

        $crate::from!($error: $($of => $below),*);
    };
}
