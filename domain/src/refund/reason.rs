//! Why a refund was made, and why it failed. `Display` is the text for the merchant.

crate::fact! {
    /// Why a refund was made.
    pub enum RefundReason {
        /// The words of the merchant, who requested it from this service.
        Merchant(String) = "{0}";
        RequestedAtBank = "Requested at the bank.";
        RequestedAtAcquirer = "Requested at the acquirer.";
        /// The bank returned the payment itself. Contains its code for the cause.
        ReturnedByBank(String) = "Returned by the bank: {0}.";
    }
}

crate::fact! {
    /// Why a refund failed.
    pub enum RefundFailure {
        LostByBank = "The bank does not know the payment any more.";
        NotAcceptedIn90Days = "The bank did not accept the refund within 90 days.";
        UsedUp = "Other returns left too little of the payment for the refund.";
        NoPixKey = "The refund has no Pix key.";
        RefusedByBank = "The bank refused the request without a reason.";
        CardNotValid = "The card is not valid any more, so the refund did not reach the payer.";
        IssuerDeclined = "The card's issuer declined the refund.";
        BalanceTooLow = "The balance at the acquirer is too low for the refund.";
        DisputedBefore = "The payer disputed the payment before the refund.";
        Disputed = "The payment is disputed, so it can't be refunded.";
        CancelledAtAcquirer = "The refund was canceled at the acquirer.";
        NotExecuted = "The acquirer could not execute the refund.";
        NotRequestable = "The refund can't be requested.";
        AlreadyRefunded = "The payment was already refunded in full.";
        RefusedByAcquirer = "The acquirer refused the refund.";
        /// The bank's words, with masked documents.
        InWords(String) = "{0}";
    }
}
