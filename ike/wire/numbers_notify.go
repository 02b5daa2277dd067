package wire

// Error notifies, below 16384 (section 3.10.1).
const (
	NotifyUnsupportedCriticalPayload NotifyType = 1
	NotifyInvalidIKESPI              NotifyType = 4
	NotifyInvalidMajorVersion        NotifyType = 5
	NotifyInvalidSyntax              NotifyType = 7
	NotifyInvalidMessageID           NotifyType = 9
	NotifyInvalidSPI                 NotifyType = 11
	NotifyNoProposalChosen           NotifyType = 14
	NotifyInvalidKEPayload           NotifyType = 17
	NotifyAuthenticationFailed       NotifyType = 24
	NotifySinglePairRequired         NotifyType = 34
	NotifyNoAdditionalSAs            NotifyType = 35
	NotifyInternalAddressFailure     NotifyType = 36
	NotifyFailedCPRequired           NotifyType = 37
	NotifyTSUnacceptable             NotifyType = 38
	NotifyInvalidSelectors           NotifyType = 39
	NotifyUnacceptableAddresses      NotifyType = 40 // RFC 4555
	NotifyUnexpectedNATDetected      NotifyType = 41 // RFC 4555
	NotifyUseAssignedHoA             NotifyType = 42 // RFC 5026
	NotifyTemporaryFailure           NotifyType = 43
	NotifyChildSANotFound            NotifyType = 44
	NotifyInvalidGroupID             NotifyType = 45 // RFC 9838
	NotifyAuthorizationFailed        NotifyType = 46 // RFC 9838
	NotifyStateNotFound              NotifyType = 47 // RFC 9370
	NotifyTSMaxQueue                 NotifyType = 48 // RFC 9611
)

// Status notifies, from 16384 (section 3.10.1).
const (
	NotifyInitialContact                  NotifyType = 16384
	NotifySetWindowSize                   NotifyType = 16385
	NotifyAdditionalTSPossible            NotifyType = 16386
	NotifyIPCompSupported                 NotifyType = 16387
	NotifyNATDetectionSourceIP            NotifyType = 16388
	NotifyNATDetectionDestinationIP       NotifyType = 16389
	NotifyCookie                          NotifyType = 16390
	NotifyUseTransportMode                NotifyType = 16391
	NotifyHTTPCertLookupSupported         NotifyType = 16392
	NotifyRekeySA                         NotifyType = 16393
	NotifyESPTFCPaddingNotSupported       NotifyType = 16394
	NotifyNonFirstFragmentsAlso           NotifyType = 16395
	NotifyMOBIKESupported                 NotifyType = 16396 // RFC 4555, as the six that follow
	NotifyAdditionalIP4Address            NotifyType = 16397
	NotifyAdditionalIP6Address            NotifyType = 16398
	NotifyNoAdditionalAddresses           NotifyType = 16399
	NotifyUpdateSAAddresses               NotifyType = 16400
	NotifyCookie2                         NotifyType = 16401
	NotifyNoNATsAllowed                   NotifyType = 16402
	NotifyAuthLifetime                    NotifyType = 16403 // RFC 4478
	NotifyMultipleAuthSupported           NotifyType = 16404 // RFC 4739
	NotifyAnotherAuthFollows              NotifyType = 16405 // RFC 4739
	NotifyRedirectSupported               NotifyType = 16406 // RFC 5685
	NotifyRedirect                        NotifyType = 16407
	NotifyRedirectedFrom                  NotifyType = 16408
	NotifyTicketLTOpaque                  NotifyType = 16409 // RFC 5723
	NotifyTicketRequest                   NotifyType = 16410
	NotifyTicketAck                       NotifyType = 16411
	NotifyTicketNack                      NotifyType = 16412
	NotifyTicketOpaque                    NotifyType = 16413
	NotifyLinkID                          NotifyType = 16414 // RFC 5739
	NotifyUseWESPMode                     NotifyType = 16415 // RFC 5840
	NotifyROHCSupported                   NotifyType = 16416 // RFC 5857
	NotifyEAPOnlyAuthentication           NotifyType = 16417 // RFC 5998
	NotifyChildlessIKEv2Supported         NotifyType = 16418 // RFC 6023
	NotifyQuickCrashDetection             NotifyType = 16419 // RFC 6290
	NotifyIKEv2MessageIDSyncSupported     NotifyType = 16420 // RFC 6311
	NotifyIPsecReplayCounterSyncSupported NotifyType = 16421
	NotifyIKEv2MessageIDSync              NotifyType = 16422
	NotifyIPsecReplayCounterSync          NotifyType = 16423
	NotifySecurePasswordMethods           NotifyType = 16424 // RFC 6467
	NotifyPSKPersist                      NotifyType = 16425 // RFC 6631
	NotifyPSKConfirm                      NotifyType = 16426
	NotifyERXSupported                    NotifyType = 16427 // RFC 6867
	NotifyIFOMCapability                  NotifyType = 16428
	NotifyGroupSender                     NotifyType = 16429 // RFC 9838
	NotifyFragmentationSupported          NotifyType = 16430 // RFC 7383
	NotifySignatureHashAlgorithms         NotifyType = 16431 // RFC 7427
	NotifyCloneIKESASupported             NotifyType = 16432 // RFC 7791
	NotifyCloneIKESA                      NotifyType = 16433
	NotifyPuzzle                          NotifyType = 16434 // RFC 8019
	NotifyUsePPK                          NotifyType = 16435 // RFC 8784
	NotifyPPKIdentity                     NotifyType = 16436
	NotifyNoPPKAuth                       NotifyType = 16437
	NotifyIntermediateSupported           NotifyType = 16438 // RFC 9242
	NotifyIP4Allowed                      NotifyType = 16439 // RFC 8983
	NotifyIP6Allowed                      NotifyType = 16440
	NotifyAdditionalKeyExchange           NotifyType = 16441 // RFC 9370
	NotifyUseAggFrag                      NotifyType = 16442 // RFC 9347
	NotifySupportedAuthMethods            NotifyType = 16443 // RFC 9593
	NotifySAResourceInfo                  NotifyType = 16444 // RFC 9611
	NotifyUsePPKInt                       NotifyType = 16445 // RFC 9867
	NotifyPPKIdentityKey                  NotifyType = 16446 // RFC 9867
)

// statusNotifies is the first status type; errors are below (section 3.10.1).
const statusNotifies NotifyType = 16384

// IsError reports whether a notify of this type says that something failed.
func (t NotifyType) IsError() bool { return t < statusNotifies }
