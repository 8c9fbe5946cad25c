//! The entry points of the deployed functions. Each `main.rs` names only what differs.

/// Defines the `main` of a function that serves HTTP routes: `|aws, clock, var| router`.
#[macro_export]
macro_rules! http_main {
    (|$aws:ident, $clock:ident, $var:ident| $router:expr) => {
        #[global_allocator]
        static ALLOCATOR: $crate::Allocator = $crate::Allocator;

        #[tokio::main(flavor = "current_thread")]
        async fn main() -> std::process::ExitCode {
            $crate::log::run(serve()).await
        }

        async fn serve() -> Result<(), lambda_http::Error> {
            let $var: $crate::config::Vars<'_> = &|name| std::env::var(name).ok();
            let ($aws, $clock) = (&$crate::store::Aws::from_vars($var)?, $crate::clock::Clock::default());
            lambda_http::run($router).await
        }
    };
}

/// Defines the `main` of a function that handles events: `|aws, clock, var| state`, and
/// `|state, event: Type| result`.
#[macro_export]
macro_rules! event_main {
    (
        |$aws:ident, $clock:ident, $var:ident| $make:expr,
        |$state:ident, $event:ident: $type:ty| $handle:expr $(,)?
    ) => {
        #[global_allocator]
        static ALLOCATOR: $crate::Allocator = $crate::Allocator;

        #[tokio::main(flavor = "current_thread")]
        async fn main() -> std::process::ExitCode {
            $crate::log::run(serve()).await
        }

        async fn serve() -> Result<(), lambda_runtime::Error> {
            let $var: $crate::config::Vars<'_> = &|name| std::env::var(name).ok();
            let ($aws, $clock) = (&$crate::store::Aws::from_vars($var)?, $crate::clock::Clock::default());
            let $state = &$make;
            let handle = |event: lambda_runtime::LambdaEvent<$type>| async move {
                let ($event, context) = event.into_parts();
                let handled = async move { Ok::<_, lambda_runtime::Error>($handle) };
                $crate::log::in_invocation(&context, Box::pin(handled)).await
            };
            lambda_runtime::run(lambda_runtime::service_fn(handle)).await
        }
    };
}
