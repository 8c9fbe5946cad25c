//! The endpoint and the `User-Agent` of an AWS client.

use aws_runtime::user_agent::UserAgentInterceptor;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::endpoint::{
    EndpointFuture, EndpointResolverParams, ResolveEndpoint, SharedEndpointResolver,
};
use aws_smithy_runtime_api::client::interceptors::{disable_interceptor, dyn_dispatch_hint};
use aws_smithy_types::endpoint::Endpoint;

const USER_AGENT: &str = concat!("payments/", env!("CARGO_PKG_VERSION"));

/// Resolves every request to one endpoint. The SDK's resolver evaluates its rules for each request, although
/// the result never changes in a function.
#[derive(Debug)]
struct FixedEndpoint(Endpoint);

impl ResolveEndpoint for FixedEndpoint {
    fn resolve_endpoint<'a>(&'a self, _: &'a EndpointResolverParams) -> EndpointFuture<'a> {
        EndpointFuture::ready(Ok(self.0.clone()))
    }
}

/// Returns a resolver for the endpoint of a service in a region, or for `url` if it is given.
pub(super) fn fixed_endpoint(service: &str, region: &str, url: Option<&str>) -> SharedEndpointResolver {
    let url = url.map_or_else(|| regional_url(service, region), str::to_owned);
    SharedEndpointResolver::new(FixedEndpoint(Endpoint::builder().url(url).build()))
}

/// Returns the URL of a service in a region of the partitions `aws`, `aws-us-gov` or `aws-cn`.
fn regional_url(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://{service}.{region}.{suffix}")
}

/// Sends a constant `User-Agent`. The SDK's interceptor lists the features that each call uses, which takes a
/// twentieth of a call's instructions.
#[derive(Debug)]
pub(super) struct ConstantUserAgent;

#[dyn_dispatch_hint]
impl Intercept for ConstantUserAgent {
    fn name(&self) -> &'static str {
        "ConstantUserAgent"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config
            .interceptor_state()
            .store_put(disable_interceptor::<UserAgentInterceptor>("the agent is constant"));
        Ok(())
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        context.request_mut().headers_mut().try_insert("user-agent", USER_AGENT)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};

    use super::*;

    #[tokio::test]
    async fn the_endpoint_of_a_region_is_that_of_the_sdk() {
        for region in ["sa-east-1", "us-east-1", "eu-central-2", "us-gov-west-1", "cn-north-1"] {
            let params = Params::builder().region(region).build().unwrap();
            let endpoint = DefaultResolver::new().resolve_endpoint(&params).await.unwrap();
            assert_eq!(regional_url("dynamodb", region), endpoint.url());
        }
    }
}
